//go:build !wasip1

package windlasstest

import (
	"encoding/json"
	"strconv"

	"windlass.dev/windlass"
)

// pageSize is the number of items of a page if the call sets no limit.
const pageSize = 500

// ownerIndex is the index that [windlass.Dependents] declares, and the label that it is of.
const ownerIndex = "windlass.dev/owner"

// answer runs an operation of a guest.
func (s *store) answer(operation windlass.Operation) (windlass.Reply, error) {
	switch operation.Verb {
	case windlass.VerbGet:
		_, err := isStatus(operation.Get.Subresource)
		stored, exists := s.objects[identityOf(operation.Kind, operation.Key)]
		if err != nil || !exists {
			return windlass.Reply{}, err
		}
		text, err := written(stored, operation.Get.MetadataOnly)
		return windlass.Reply{Text: text}, err
	case windlass.VerbList:
		page, err := s.list(operation.Kind, operation.List)
		return windlass.Reply{Page: page}, err
	case windlass.VerbDelete:
		return windlass.Reply{}, s.delete(operation.Kind, operation.Key, operation.Delete)
	}
	object, err := s.write(operation)
	if err != nil {
		return windlass.Reply{}, err
	}
	text, err := written(object, false)
	return windlass.Reply{Text: text}, err
}

// write runs a write that answers an object.
func (s *store) write(operation windlass.Operation) (windlass.Object, error) {
	subresource := operation.Write.Subresource
	switch operation.Verb {
	case windlass.VerbApply:
		subresource = operation.Apply.Subresource
	case windlass.VerbCreate:
		subresource = "" // a create is of the whole object
	}
	status, err := isStatus(subresource)
	if err != nil {
		return nil, err
	}
	if operation.Verb == windlass.VerbPatch && operation.PatchType != windlass.MergePatchType {
		return nil, invalid("a cluster in memory knows merge patches only")
	}
	// The object, or the patch of one.
	object, err := parsed(operation.Text)
	if err != nil {
		return nil, err
	}
	switch operation.Verb {
	case windlass.VerbCreate:
		return s.create(operation.Kind, object, operation.Write.DryRun)
	case windlass.VerbUpdate:
		return s.update(operation.Kind, object, status, operation.Write.DryRun)
	case windlass.VerbPatch:
		return s.patch(operation.Kind, operation.Key, object, status, operation.Write.DryRun)
	case windlass.VerbApply:
		return s.apply(operation.Kind, object, status, operation.Apply.DryRun)
	}
	return nil, invalid("a cluster in memory has no call %q", operation.Verb)
}

func (s *store) list(kind windlass.GroupVersionKind, options windlass.ListOptions) (*windlass.Page[string], error) {
	selection := windlass.Selection{
		Namespace: options.Namespace, LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector,
	}
	switch options.IndexName {
	case "":
	case ownerIndex:
		selection.LabelSelector = ownerIndex + "=" + options.IndexValue
	default:
		return nil, invalid("a cluster in memory has no indexes: list by label, or test with a real cluster")
	}
	selected, err := s.selected(kind, selection)
	if err != nil {
		return nil, err
	}
	start, size := 0, pageSize
	if options.Continue != "" {
		if start, err = strconv.Atoi(options.Continue); err != nil || start < 0 {
			return nil, invalid("the continue token is of another list")
		}
	}
	if options.Limit > 0 {
		size = int(options.Limit)
	}
	// A page after the last one is empty: objects may have been deleted in between.
	start = min(start, len(selected))
	end := start + min(size, len(selected)-start)
	page := &windlass.Page[string]{Items: []string{}, ResourceVersion: strconv.Itoa(s.version)}
	for _, identity := range selected[start:end] {
		text, err := written(s.objects[identity], options.MetadataOnly)
		if err != nil {
			return nil, err
		}
		page.Items = append(page.Items, text)
	}
	if end < len(selected) {
		page.Continue = strconv.Itoa(end)
	}
	return page, nil
}

func (s *store) deleteCollection(kind windlass.GroupVersionKind, selection windlass.Selection, dry bool) error {
	selected, err := s.selected(kind, selection)
	if err != nil || dry {
		return err
	}
	for _, identity := range selected {
		s.remove(identity)
	}
	return nil
}

// selected are the selected objects of a kind, by namespace and name.
func (s *store) selected(kind windlass.GroupVersionKind, selection windlass.Selection) ([]identity, error) {
	labelsMatch, err := parseLabels(selection.LabelSelector)
	if err != nil {
		return nil, err
	}
	fieldsMatch, err := parseFields(selection.FieldSelector)
	if err != nil {
		return nil, err
	}
	var selected []identity
	for _, each := range s.sorted() {
		object := s.objects[each]
		if each.group != kind.Group || each.kind != kind.Kind {
			continue
		}
		if selection.Namespace != "" && selection.Namespace != each.namespace {
			continue
		}
		if labelsMatch(labelsOf(object)) && fieldsMatch(object) {
			selected = append(selected, each)
		}
	}
	return selected, nil
}

// isStatus reports whether a call is to the status, and not to the object.
func isStatus(subresource string) (bool, error) {
	switch subresource {
	case "":
		return false, nil
	case string(windlass.Status):
		return true, nil
	}
	return false, invalid("a cluster in memory has no subresource %q", subresource)
}

// written is an object as JSON, whole or with apiVersion, kind and metadata alone.
func written(object windlass.Object, metadataOnly bool) (string, error) {
	if metadataOnly {
		whole := object
		object = windlass.Object{}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			if value, has := whole[name]; has {
				object[name] = value
			}
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return "", invalid("not JSON: %v", err)
	}
	return string(text), nil
}
