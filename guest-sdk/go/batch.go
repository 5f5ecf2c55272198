package windlass

// Operation is one call of a batch. Made by [OpGet], [OpList], [OpCreate], [OpUpdate], [OpPatch], [OpApply] and [OpDelete].
type Operation struct {
	// Verb is the function to call; fields that it does not take are zero.
	Verb Verb
	// Kind of the objects.
	Kind GroupVersionKind
	// Key of a get, a patch and a delete.
	Key ObjectKey
	// Text is the object to write, or the patch, as JSON.
	Text string
	// PatchType of a patch.
	PatchType PatchType
	// Get are the options of a get.
	Get GetOptions
	// List are the options of a list.
	List ListOptions
	// Write are the options of a create, an update and a patch.
	Write WriteOptions
	// Apply are the options of an apply.
	Apply ApplyOptions
	// Delete are the options of a delete.
	Delete DeleteOptions

	err error
}

// Reply is the answer to one call of a batch.
type Reply struct {
	// Text is the object that was read or written, as JSON; "" for a get of an absent object, a delete and a list.
	Text string
	// Page is the page of a list.
	Page *Page[string]
	// Err is why the call failed, an [*APIError].
	Err error

	kind GroupVersionKind
}

// Object is the object that was read or written; nil where there is none.
func (r Reply) Object() (Object, error) {
	if r.Err != nil || r.Text == "" {
		return nil, r.Err
	}
	return decodeObject(r.kind, r.Text)
}

// Objects are the objects of a list's page.
func (r Reply) Objects() ([]Object, error) {
	if r.Err != nil || r.Page == nil {
		return nil, r.Err
	}
	return decodeObjects(r.kind, r.Page.Items)
}

// Decode reads the object that was read or written into a struct; false where there is none.
func (r Reply) Decode(into any) (bool, error) {
	if r.Err != nil || r.Text == "" {
		return false, r.Err
	}
	return true, decodeInto(r.kind, r.Text, into)
}

// OpGet reads an object, as [Cluster.Get].
func OpGet(kind GroupVersionKind, key ObjectKey, options ...GetOption) Operation {
	return Operation{Verb: VerbGet, Kind: kind, Key: key, Get: getOptions(options)}
}

// OpList lists a page of objects, as [Cluster.List].
func OpList(kind GroupVersionKind, options ...ListOption) Operation {
	return Operation{Verb: VerbList, Kind: kind, List: listOptions(options)}
}

// OpCreate creates an object, as [Cluster.Create].
func OpCreate(object Kinded, options ...WriteOption) Operation {
	operation := writing(VerbCreate, object)
	operation.Write = writeOptions(options)
	return operation
}

// OpUpdate replaces an object, as [Cluster.Update].
func OpUpdate(object Kinded, options ...WriteOption) Operation {
	operation := writing(VerbUpdate, object)
	operation.Write = writeOptions(options)
	return operation
}

// OpApply applies an object, as [Cluster.Apply].
func OpApply(object Kinded, options ...ApplyOption) Operation {
	operation := writing(VerbApply, object)
	operation.Apply = applyOptions(options)
	return operation
}

// OpPatch patches an object, as [Cluster.Patch].
func OpPatch(kind GroupVersionKind, key ObjectKey, patch Patch, options ...WriteOption) Operation {
	text, err := patch.encode()
	return Operation{
		Verb: VerbPatch, Kind: kind, Key: key, Text: text, PatchType: patch.Type, Write: writeOptions(options), err: err,
	}
}

// OpDelete deletes an object, as [Cluster.Delete].
func OpDelete(kind GroupVersionKind, key ObjectKey, options ...DeleteOption) Operation {
	return Operation{Verb: VerbDelete, Kind: kind, Key: key, Delete: deleteOptions(options)}
}

func writing(verb Verb, object Kinded) Operation {
	kind, text, err := encode(object)
	return Operation{Verb: verb, Kind: kind, Text: text, err: err}
}

// runBatch sends the operations that could be encoded, and returns the replies in the order of all operations.
func runBatch(operations []Operation, send func([]Operation) []Reply) []Reply {
	replies := make([]Reply, len(operations))
	sent := make([]Operation, 0, len(operations))
	for i, operation := range operations {
		if replies[i] = (Reply{Err: operation.err}); operation.err == nil {
			sent = append(sent, operation)
		}
	}
	answers := send(sent)
	for i, operation := range operations {
		if operation.err == nil {
			replies[i], answers = answers[0], answers[1:]
			replies[i].kind = operation.Kind
		}
	}
	return replies
}
