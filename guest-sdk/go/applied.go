package windlass

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
)

// applied is the annotation with the fingerprints.
const applied = "windlass.dev/applied"

// desired is an object as it should be.
//
// A server may keep what is applied in another form: without an empty value, 1000m as 1, with a default for null. To compare with what it keeps
// would be to apply at every reconcile. So an annotation of the object has two fingerprints: of what was applied, and, where the server keeps it in
// another form, of what the object then had at those fields. The object is as desired while neither has changed.
type desired struct {
	// object is without the fingerprints.
	object Object
	print  string
}

// desiredOf takes a copy of the object.
func desiredOf(object Object) (desired, error) {
	made, err := copied(object)
	if err != nil {
		return desired{}, err
	}
	strip(made)
	return desired{made, fingerprint(map[string]any(made))}, nil
}

// heldBy reports whether this was applied, and no field of it has changed since.
func (d desired) heldBy(present Object) bool {
	print, kept := noteOf(present)
	if print != d.print {
		return false
	}
	fields, wanted := map[string]any(present), map[string]any(d.object)
	if kept == "" {
		return covers(fields, wanted)
	}
	// Only the form that was noted: else a change to one that the server kept before would not be seen.
	return kept == fingerprint(keptOf(fields, wanted))
}

// wasAppliedTo reports whether this was applied to an object, whatever the object is now.
func (d desired) wasAppliedTo(present Object) bool {
	print, _ := noteOf(present)
	return print == d.print
}

// next is as it is applied to an object. What the server made of the same fields before, it will make again.
func (d desired) next(present Object) Object {
	print, kept := noteOf(present)
	if print != d.print {
		kept = ""
	}
	return d.stamped(kept)
}

// noted is as it is applied once more, with a note of what the server has made of it, if that is another form.
func (d desired) noted(stored Object) Object {
	fields, wanted := map[string]any(stored), map[string]any(d.object)
	if covers(fields, wanted) {
		return d.stamped("")
	}
	return d.stamped(fingerprint(keptOf(fields, wanted)))
}

func (d desired) stamped(kept string) Object {
	note := d.print
	if kept != "" {
		note += "-" + kept
	}
	object, metadata, annotations := maps.Clone(d.object), map[string]any{}, map[string]any{}
	maps.Copy(metadata, d.object.fields("metadata"))
	maps.Copy(annotations, d.object.fields("metadata", "annotations"))
	annotations[applied] = note
	metadata["annotations"] = annotations
	object["metadata"] = metadata
	return object
}

// noteOf are the fingerprints that an object has.
func noteOf(object Object) (print, kept string) {
	note, _ := object.At("metadata", "annotations", applied).(string)
	print, kept, _ = strings.Cut(note, "-")
	return print, kept
}

// fields is the map at a path; nil where there is none.
func (o Object) fields(path ...string) map[string]any {
	found, _ := o.At(path...).(map[string]any)
	return found
}

// strip removes what is the server's to set, and gives the data of a Secret the one form in which it is kept.
func strip(object Object) {
	delete(object.fields("metadata"), "creationTimestamp")
	if annotations := object.fields("metadata", "annotations"); annotations != nil {
		delete(annotations, applied)
	} else { // the note is among them, so that null would not be what the object has
		delete(object.fields("metadata"), "annotations")
	}
	if status, isMap := object["status"].(map[string]any); object["status"] == nil || isMap && len(status) == 0 {
		delete(object, "status")
	}
	texts, areTexts := object["stringData"].(map[string]any)
	if !areTexts || object["apiVersion"] != "v1" || object["kind"] != "Secret" {
		return
	}
	data := map[string]any{}
	maps.Copy(data, object.fields("data"))
	for name, each := range texts {
		text, isText := each.(string)
		if !isText {
			return
		}
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(object, "stringData")
	object["data"] = data
}

// covers reports whether an object has everything that is desired.
func covers(present, desired any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := present.(map[string]any)
		for name, each := range desired {
			ok = ok && covers(fields[name], each)
		}
		return ok
	case []any:
		items, ok := present.([]any)
		ok = ok && len(items) == len(desired)
		for i := range desired {
			ok = ok && covers(items[i], desired[i])
		}
		return ok
	}
	return present == desired
}

// keptOf is what an object has at the fields that are desired.
func keptOf(present, desired any) any {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := present.(map[string]any)
		if !ok {
			return present
		}
		kept := make(map[string]any, len(desired))
		for name, each := range desired {
			kept[name] = keptOf(fields[name], each)
		}
		return kept
	case []any:
		items, ok := present.([]any)
		if !ok || len(items) != len(desired) {
			return present
		}
		kept := make([]any, len(desired))
		for i := range desired {
			kept[i] = keptOf(items[i], desired[i])
		}
		return kept
	}
	return present
}

// fingerprint is FNV-1a over a value, with sorted names: the same for equal values, in every language's SDK.
func fingerprint(value any) string {
	hash := fnv.New32a()
	walk(hash, value)
	return fmt.Sprintf("%08x", hash.Sum32())
}

func walk(into io.Writer, value any) {
	switch value := value.(type) {
	case nil:
		io.WriteString(into, "n")
	case bool:
		io.WriteString(into, fmt.Sprint(value)[:1])
	case string:
		io.WriteString(into, `"`+value+"\x00")
	case []any:
		io.WriteString(into, "[")
		for _, each := range value {
			walk(into, each)
		}
		io.WriteString(into, "]")
	case map[string]any:
		io.WriteString(into, "{")
		for _, name := range slices.Sorted(maps.Keys(value)) {
			walk(into, name)
			walk(into, value[name])
		}
		io.WriteString(into, "}")
	default: // a number
		fmt.Fprintf(into, "#%v;", value)
	}
}
