package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// most are the failures that a message names.
	most = 3
	// longest is what a message says of one failure, in characters.
	longest = 200
	// unprocessable is HTTP's status for an object that the server does not take as it is.
	unprocessable = 422
)

// pass is one pass over the dependents of a living object. A failure of one keeps none of the others.
type pass struct {
	parts   Dependents
	cluster *Cluster
	wanted  []desired
	found   []Object
	present map[identity]Object
	// waiting is what is not there yet, each with the reason.
	waiting []string
	// failures are in words; first is the first of them.
	failures []string
	first    error
}

// change is a desired object, and as what it is applied.
type change struct {
	desired desired
	object  Object
	// refusal is why the server does not take it.
	refusal error
}

// applyAll applies what differs: first what others need to exist. What a server keeps in another form is applied once more, with a note of it.
func (p *pass) applyAll() {
	var applied []desired
	for _, first := range []bool{true, false} {
		var changes []change
		for _, each := range p.wanted {
			if isGround(each.object) == first {
				changes = p.differing(changes, each)
			}
		}
		applied = append(applied, p.apply(changes)...)
	}
	var notes []change
	for _, each := range applied {
		if stored := p.present[identityOf(each.object)]; !each.heldBy(stored) {
			notes = append(notes, change{desired: each, object: each.noted(stored)})
		}
	}
	p.apply(notes)
}

// differing appends what to apply, if there is something to do, and now.
func (p *pass) differing(changes []change, each desired) []change {
	present := p.present[identityOf(each.object)]
	switch {
	case present != nil && each.heldBy(present):
		return changes
	case present != nil && present.Deleting() && p.mayRecreate(each.object):
		p.waiting = append(p.waiting, recreated(each.object))
		return changes
	}
	return append(changes, change{desired: each, object: each.next(present)})
}

// apply applies these, and returns those that are stored.
func (p *pass) apply(changes []change) (applied []desired) {
	var refused []change
	for i, reply := range p.batch(changes, func(object Object) Operation { return OpApply(object, Force) }) {
		stored, err := reply.Object()
		object := changes[i].object
		switch {
		case err == nil:
			p.present[identityOf(object)] = stored
			applied = append(applied, changes[i].desired)
		case statusOf(err) == unprocessable && p.isOther(changes[i].desired):
			refused = append(refused, change{changes[i].desired, object, err})
		default:
			p.notApplied(object, err)
		}
	}
	p.recreate(refused)
	return applied
}

// isOther reports whether an object is to be deleted and created again. One that was made of the same fields is not: it would be made in the same way
// again, and refused again.
func (p *pass) isOther(each desired) bool {
	present := p.present[identityOf(each.object)]
	return present != nil && p.mayRecreate(each.object) && !each.wasAppliedTo(present)
}

func (p *pass) batch(changes []change, operation func(Object) Operation) []Reply {
	operations := make([]Operation, len(changes))
	for i, each := range changes {
		operations[i] = operation(each.object)
	}
	if len(operations) == 0 {
		return nil
	}
	return p.cluster.Batch(operations...)
}

func (p *pass) notApplied(object Object, err error) {
	if why := p.waitsFor(object, err); why != "" {
		p.waiting = append(p.waiting, named(object)+": "+why)
		return
	}
	p.fail(named(object), err)
}

// waitsFor is what an object waits for that could not be applied; "" if that is a failure.
func (p *pass) waitsFor(object Object, err error) string {
	details, namespace := detailsOf(err), object.Key().Namespace
	if IsNotFound(err) && details.Kind == "namespaces" {
		return "its namespace " + namespace + " does not exist"
	}
	for _, cause := range details.Causes {
		if cause.Reason == "NamespaceTerminating" {
			return "its namespace " + namespace + " is being deleted"
		}
	}
	if isDefined(err, object.GVK(), p.wanted) {
		return "its kind is not served yet"
	}
	return ""
}

func (p *pass) mayRecreate(object Object) bool {
	return slices.Contains(p.parts.Recreate, object.GVK())
}

// recreate deletes these objects, so that they are created again when they are gone. The server is asked before whether it would create them: an
// object that is wrong altogether is not lost. One that is refused for what the object has itself, such as a port, tells nothing: the change is the
// failure then.
func (p *pass) recreate(refused []change) {
	var doomed []Object
	for i, reply := range p.batch(refused, func(object Object) Operation { return OpCreate(object, DryRun) }) {
		object := refused[i].object
		if reply.Err != nil && !IsAlreadyExists(reply.Err) {
			err := reply.Err
			if statusOf(err) == unprocessable {
				err = refused[i].refusal
			}
			p.fail(named(object), err)
			continue
		}
		doomed = append(doomed, p.present[identityOf(object)])
	}
	for _, each := range remove(p.cluster, doomed) {
		if each.err != nil && !IsConflict(each.err) {
			p.notDeleted(each)
			continue
		}
		p.waiting = append(p.waiting, recreated(each.object))
	}
}

// deleteOthers deletes what is no longer desired.
func (p *pass) deleteOthers() {
	isWanted := func(object Object) bool {
		return slices.ContainsFunc(p.wanted, func(each desired) bool { return identityOf(each.object) == identityOf(object) })
	}
	for _, each := range remove(p.cluster, slices.DeleteFunc(p.found, isWanted)) {
		if each.err != nil {
			p.notDeleted(each)
		}
	}
}

func (p *pass) notDeleted(each removed) {
	p.fail(named(each.object)+" cannot be deleted", each.err)
}

func (p *pass) fail(what string, err error) {
	p.failures = append(p.failures, what+": "+inPlainWords(err))
	if p.first == nil {
		p.first = err
	}
}

// end writes the conditions. All failures are one error.
func (p *pass) end(primary Object) (done Result, err error) {
	if p.first != nil {
		failed := p.failed()
		if err := report(p.cluster, primary, "ApplyFailed", failed.Message, nil); err != nil {
			failed.Message += "; and the status cannot be written: " + inPlainWords(err)
		}
		return done, failed
	}
	for _, each := range p.wanted {
		stored := p.present[identityOf(each.object)]
		if stored == nil {
			continue
		}
		if why := p.parts.Ready(stored); why != "" {
			p.waiting = append(p.waiting, named(each.object)+": "+why)
		}
	}
	if len(p.waiting) == 0 {
		return done, report(p.cluster, primary, "Ready", "all dependents are ready", p.parts.Status)
	}
	return RequeueAfter(p.parts.Recheck), report(p.cluster, primary, "NotReady", "waits for "+summary(p.waiting), p.parts.Status)
}

// failed is the first failure, with a message that names several.
func (p *pass) failed() *APIError {
	failed := APIError{Code: CodeOther, Reason: string(CodeOther)}
	if first := (*APIError)(nil); errors.As(p.first, &first) {
		failed = *first
	}
	failed.Message = strings.Join(p.failures[:min(most, len(p.failures))], "; ")
	if more := len(p.failures) - most; more > 0 {
		failed.Message += fmt.Sprintf("; and %d more", more)
	}
	return failing(&failed)
}

// recreated is the text about an object that is deleted to be created again.
func recreated(object Object) string {
	return named(object) + ": it is deleted, and then created again"
}

// isGround reports whether other objects need this one to exist: a Namespace, or the definition of a kind.
func isGround(object Object) bool {
	kind := object.GVK()
	return kind.Group == "" && kind.Kind == "Namespace" || isDefinition(kind)
}

// isDefinition reports whether this is the kind of definitions of kinds.
func isDefinition(kind GroupVersionKind) bool {
	return kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition"
}

// isDefined reports whether the cluster does not know a kind whose definition is desired.
func isDefined(err error, kind GroupVersionKind, wanted []desired) bool {
	return CodeOf(err) == CodeUnknownKind && slices.ContainsFunc(wanted, func(each desired) bool {
		return isGround(each.object) && each.object.At("spec", "group") == kind.Group && each.object.At("spec", "names", "kind") == kind.Kind
	})
}

// removed is an object that was deleted, or the reason why not.
type removed struct {
	object Object
	err    error
}

// remove deletes these objects and what they own, and not newer ones of the same names; Namespaces and definitions of kinds after all others. It
// returns those that were not being deleted yet.
func remove(cluster *Cluster, objects []Object) (all []removed) {
	for _, last := range []bool{false, true} {
		var operations []Operation
		first := len(all)
		for _, object := range objects {
			if !object.Deleting() && isGround(object) == last {
				all = append(all, removed{object: object})
				operations = append(operations, OpDelete(object.GVK(), object.Key(), IfUID(object.UID()), Background))
			}
		}
		if len(operations) == 0 {
			continue
		}
		for i, reply := range cluster.Batch(operations...) {
			all[first+i].err = IgnoreNotFound(reply.Err)
		}
	}
	return all
}

// details are what the API server says of a failure.
type details struct {
	Kind   string
	Causes []struct{ Reason, Message, Field string }
}

func detailsOf(err error) (found details) {
	if failed := (*APIError)(nil); errors.As(err, &failed) {
		_ = json.Unmarshal(failed.Details, &found) // there may be none
	}
	return found
}

func statusOf(err error) int {
	if failed := (*APIError)(nil); errors.As(err, &failed) {
		return failed.Status
	}
	return 0
}

// inPlainWords is a failure's message: the first field that is wrong, without the value that a server prints of it.
func inPlainWords(err error) string {
	var texts []string
	for _, cause := range detailsOf(err).Causes {
		text := cause.Message
		if i := strings.LastIndex(text, "}: "); i >= 0 {
			text = text[i+len("}: "):]
		}
		if cause.Field != "" {
			text = cause.Field + ": " + text
		}
		texts = append(texts, bounded(text))
	}
	if len(texts) > 0 {
		return summary(texts)
	}
	if failed := (*APIError)(nil); errors.As(err, &failed) {
		return bounded(failed.Message)
	}
	return bounded(err.Error())
}

func bounded(text string) string {
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return text
}

// summary is the first text, and how many more there are.
func summary(texts []string) string {
	if len(texts) > 1 {
		return fmt.Sprintf("%s, and %d more", texts[0], len(texts)-1)
	}
	return texts[0]
}
