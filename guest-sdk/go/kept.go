package windlass

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// kept is an object that remembers what it was read from: a struct that embeds [ObjectMeta].
type kept interface {
	keep(text string)
	whole() (text, uid string)
}

func (m *ObjectMeta) keep(text string) { m.read = text }

func (m *ObjectMeta) whole() (text, uid string) { return m.read, m.UID }

// withUnknown is the text of a struct with the fields that were read with it and that it does not have.
func withUnknown[T Kinded](object *T, text string) (string, error) {
	source, is := any(object).(kept)
	if !is {
		return text, nil
	}
	read, uid := source.whole()
	if read == "" || uid == "" {
		return text, nil
	}
	before, err := decode[T]((*object).GVK(), read)
	if err != nil {
		return "", err
	}
	if _, of := any(before).(kept).whole(); of != uid {
		return text, nil // another object by now
	}
	_, known, err := encode(*before)
	if err != nil {
		return "", err
	}
	var values [3]any
	for at, text := range []string{read, known, text} {
		// Numbers stay as they are.
		decoder := json.NewDecoder(bytes.NewBufferString(text))
		decoder.UseNumber()
		if err := decoder.Decode(&values[at]); err != nil {
			return "", unfit("encode", (*object).GVK(), err)
		}
	}
	merged, err := json.Marshal(changed(values[0], values[1], values[2]))
	if err != nil {
		return "", unfit("encode", (*object).GVK(), err)
	}
	return string(merged), nil
}

// changed is the whole with the changes from before to after, which have only the known fields. Items of a list are the same ones while
// there are as many.
func changed(whole, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return whole
	}
	switch after := after.(type) {
	case map[string]any:
		whole, isWhole := whole.(map[string]any)
		before, isBefore := before.(map[string]any)
		if !isWhole || !isBefore {
			return after
		}
		for name := range before {
			if _, stays := after[name]; !stays {
				delete(whole, name)
			}
		}
		for name, value := range after {
			whole[name] = changed(whole[name], before[name], value)
		}
		return whole
	case []any:
		whole, isWhole := whole.([]any)
		before, isBefore := before.([]any)
		if !isWhole || !isBefore || len(whole) != len(after) || len(before) != len(after) {
			return after
		}
		for at := range after {
			whole[at] = changed(whole[at], before[at], after[at])
		}
		return whole
	}
	return after
}
