package windlass

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"
)

// ConditionStatus is the status of a [Condition].
type ConditionStatus string

// The statuses of a condition.
const (
	// True: it is so.
	True ConditionStatus = "True"
	// False: it is not so.
	False ConditionStatus = "False"
	// Unknown: nobody knows.
	Unknown ConditionStatus = "Unknown"
)

// StatusOf is [True] or [False].
func StatusOf(is bool) ConditionStatus {
	if is {
		return True
	}
	return False
}

// Condition is a condition in the status of an object.
type Condition struct {
	// Type is for example Ready.
	Type string `json:"type"`
	// Status is whether it is so.
	Status ConditionStatus `json:"status"`
	// Reason is one CamelCase word.
	Reason string `json:"reason"`
	// Message is for people.
	Message string `json:"message"`
	// ObservedGeneration is the metadata.generation that the condition is about. For SetCondition 0 stands for that of the object.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is when the status became what it is: RFC 3339, whole seconds. SetCondition sets it.
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// Condition is the condition of this type in status.conditions; nil where there is none.
func (o Object) Condition(kind string) *Condition {
	found := o.conditionAt(kind)
	if found == nil {
		return nil
	}
	return &Condition{
		Type: found.String("type"), Status: ConditionStatus(found.String("status")), Reason: found.String("reason"),
		Message: found.String("message"), ObservedGeneration: found.Int("observedGeneration"),
		LastTransitionTime: found.String("lastTransitionTime"),
	}
}

func (o Object) conditionAt(kind string) Object {
	conditions, _ := o.At("status", "conditions").([]any)
	for _, each := range conditions {
		if fields, ok := each.(map[string]any); ok && fields["type"] == kind {
			return fields
		}
	}
	return nil
}

// SetCondition sets a condition in status.conditions of an object that was read, and reports whether that changed anything. Write
// it with [Cluster.SetStatus]. The transition time changes only if the status does; the order of the conditions, and fields
// unknown here, are kept.
func (o Object) SetCondition(condition Condition) bool {
	before := o.conditionAt(condition.Type)
	after := maps.Clone(before)
	if after == nil {
		after = Object{}
	}
	after["type"], after["status"] = condition.Type, string(condition.Status)
	after["reason"], after["message"] = condition.Reason, condition.Message
	if condition.ObservedGeneration == 0 {
		condition.ObservedGeneration = o.Int("metadata", "generation")
	}
	if condition.ObservedGeneration != 0 {
		after["observedGeneration"] = condition.ObservedGeneration
	}
	if before.String("status") != string(condition.Status) || before.String("lastTransitionTime") == "" {
		after["lastTransitionTime"] = Now().UTC().Format(time.RFC3339)
	}
	if reflect.DeepEqual(before, after) {
		return false
	}
	conditions, _ := o.At("status", "conditions").([]any)
	next := make([]any, 0, len(conditions)+1)
	for _, each := range conditions {
		if fields, ok := each.(map[string]any); ok && fields["type"] == condition.Type {
			each = map[string]any(after)
		}
		next = append(next, each)
	}
	if before == nil {
		next = append(next, map[string]any(after))
	}
	o.Set(next, "status", "conditions")
	return true
}

// ConditionOf is [Object.Condition] of an object of any type.
func ConditionOf(object Identified, kind string) (*Condition, error) {
	read, err := objectOf(object)
	return read.Condition(kind), err
}

// SetCondition is [Object.SetCondition] for an object of any type; a struct has its status in a field of this name, and there the conditions.
// It reports whether that changed anything.
func SetCondition(object Identified, condition Condition) (bool, error) {
	read, err := objectOf(object)
	if err != nil || !read.SetCondition(condition) {
		return false, err
	}
	if _, is := object.(Object); is {
		return true, nil
	}
	if err := takeStatus(object, read); err != nil {
		return false, err
	}
	if there, err := ConditionOf(object, condition.Type); err != nil || there == nil {
		return false, cmp.Or(err, refused(named(read)+": its type has no status.conditions"))
	}
	return true, nil
}

// takeStatus gives a struct the status of an object, and changes none of its other fields.
func takeStatus(object Identified, from Object) error {
	into := reflect.ValueOf(object)
	if into.Kind() != reflect.Pointer || into.Elem().Kind() != reflect.Struct {
		return refused(named(from) + ": take a pointer to a struct")
	}
	text, err := json.Marshal(Object{"status": from["status"]})
	if err != nil {
		return unfit("encode", object.GVK(), err)
	}
	made := reflect.New(into.Elem().Type())
	if err := decodeInto(object.GVK(), string(text), made.Interface()); err != nil {
		return err
	}
	for i := range made.Elem().NumField() {
		name, _, _ := strings.Cut(made.Elem().Type().Field(i).Tag.Get("json"), ",")
		if name == "status" {
			into.Elem().Field(i).Set(made.Elem().Field(i))
		}
	}
	return nil
}
