package windlass

// GetOptions are the options of a read of one object. The zero value reads the whole object from the host's cache.
type GetOptions struct {
	// Live asks the API server instead of the cache.
	Live bool
	// MetadataOnly answers apiVersion, kind and metadata.
	MetadataOnly bool
	// Subresource is status, scale, …: always read live. "" is the object itself.
	Subresource string
}

// ListOptions are the options of a list. The zero value lists all granted objects from the host's cache, in pages of the host's
// default size.
type ListOptions struct {
	// Namespace is "" for all namespaces that are granted.
	Namespace string
	// LabelSelector is as kubectl's -l.
	LabelSelector string
	// FieldSelector is as kubectl's --field-selector. Cached reads support metadata.name, metadata.namespace and declared indexes.
	FieldSelector string
	// IndexName is the name of an index that Describe declared, cached reads only; "": no index.
	IndexName string
	// IndexValue is the value to look up in the index.
	IndexValue string
	// Limit is the largest number of items in a page; 0: the host's page size.
	Limit uint32
	// Continue is the token of the previous page; "" for the first.
	Continue string
	// Live asks the API server instead of the cache.
	Live bool
	// MetadataOnly answers apiVersion, kind and metadata of each.
	MetadataOnly bool
}

// Selection selects the objects that [Cluster.DeleteCollection] deletes.
type Selection struct {
	// Namespace is "" for every granted namespace, one after the other.
	Namespace string
	// LabelSelector is as kubectl's -l.
	LabelSelector string
	// FieldSelector is as kubectl's --field-selector.
	FieldSelector string
}

// WriteOptions are the options of create, update and patch.
type WriteOptions struct {
	// Subresource is status, scale, …; "" writes the object itself.
	Subresource string
	// DryRun: the server checks and answers, and stores nothing.
	DryRun bool
}

// ApplyOptions are the options of a server-side apply.
type ApplyOptions struct {
	// Subresource is status, scale, …; "" applies to the object itself.
	Subresource string
	// Force takes fields over that another manager owns; otherwise they are the error conflict.
	Force bool
	// DryRun: the server checks and answers, and stores nothing.
	DryRun bool
}

// DeleteOptions are the options of a delete.
type DeleteOptions struct {
	// UID: only if the object has it; otherwise the error is conflict.
	UID string
	// ResourceVersion: only if the object has it; otherwise the error is conflict.
	ResourceVersion string
	// Propagation decides about the dependents; "": the default of the kind, background for most.
	Propagation Propagation
	// GracePeriodSeconds; nil: the default of the kind.
	GracePeriodSeconds *uint32
	// DryRun: the server checks and answers, and deletes nothing.
	DryRun bool
}

// Propagation decides about the dependents of a deleted object.
type Propagation string

// The propagations of a delete.
const (
	// Background: they are deleted afterwards.
	Background Propagation = "Background"
	// Foreground: they are deleted first.
	Foreground Propagation = "Foreground"
	// Orphan: they stay.
	Orphan Propagation = "Orphan"
)

// Options of one kind of call. Each of the structs above is an option that sets all options, so
// cluster.Get(kind, key, GetOptions{Live: true}) and cluster.Get(kind, key, Live) are the same.
type (
	// GetOption changes how an object is read: [Live], [MetadataOnly], [Subresource], [GetOptions].
	GetOption interface{ applyGet(*GetOptions) }
	// ListOption changes what is listed: [InNamespace], [Labels], [Fields], [IndexedBy], [Limit], [Continue], [Live],
	// [MetadataOnly], [ListOptions].
	ListOption interface{ applyList(*ListOptions) }
	// WriteOption changes how an object is written: [Subresource], [DryRun], [WriteOptions].
	WriteOption interface{ applyWrite(*WriteOptions) }
	// ApplyOption changes how an object is applied: [Force], [Subresource], [DryRun], [ApplyOptions].
	ApplyOption interface{ applyApply(*ApplyOptions) }
	// DeleteOption changes how objects are deleted: [IfUID], [IfResourceVersion], [Propagation], [GracePeriodSeconds],
	// [DryRun], [DeleteOptions].
	DeleteOption interface{ applyDelete(*DeleteOptions) }
)

type readFlag uint8

const (
	// Live asks the API server instead of the cache.
	Live readFlag = iota
	// MetadataOnly answers apiVersion, kind and metadata.
	MetadataOnly
)

type forceFlag struct{}

// Force takes fields over that another manager owns.
var Force forceFlag

type dryRunFlag struct{}

// DryRun: the server checks and answers, and stores nothing.
var DryRun dryRunFlag

// Subresource reads or writes status, scale, … instead of the object.
type Subresource string

// Status is the subresource that controllers write.
const Status Subresource = "status"

// InNamespace lists one namespace.
type InNamespace string

// Labels lists the objects whose labels match, as kubectl's -l.
type Labels string

// Fields lists the objects whose fields match, as kubectl's --field-selector.
type Fields string

// Limit is the largest number of items in a page.
type Limit uint32

// Continue asks for the page after another one.
type Continue string

// IndexedBy lists the objects that have a value in an index of Describe.
type IndexedBy struct{ Name, Value string }

// IfUID deletes only an object of this uid.
type IfUID string

// IfResourceVersion deletes only an object of this version.
type IfResourceVersion string

// GracePeriodSeconds is how long a deleted object may take to end.
type GracePeriodSeconds uint32

func (f readFlag) applyGet(o *GetOptions) {
	o.Live = o.Live || f == Live
	o.MetadataOnly = o.MetadataOnly || f == MetadataOnly
}

func (f readFlag) applyList(o *ListOptions) {
	o.Live = o.Live || f == Live
	o.MetadataOnly = o.MetadataOnly || f == MetadataOnly
}
func (s Subresource) applyGet(o *GetOptions)     { o.Subresource = string(s) }
func (s Subresource) applyWrite(o *WriteOptions) { o.Subresource = string(s) }
func (s Subresource) applyApply(o *ApplyOptions) { o.Subresource = string(s) }

func (forceFlag) applyApply(o *ApplyOptions) { o.Force = true }

func (dryRunFlag) applyWrite(o *WriteOptions)   { o.DryRun = true }
func (dryRunFlag) applyApply(o *ApplyOptions)   { o.DryRun = true }
func (dryRunFlag) applyDelete(o *DeleteOptions) { o.DryRun = true }

func (n InNamespace) applyList(o *ListOptions) { o.Namespace = string(n) }
func (l Labels) applyList(o *ListOptions)      { o.LabelSelector = string(l) }
func (f Fields) applyList(o *ListOptions)      { o.FieldSelector = string(f) }
func (l Limit) applyList(o *ListOptions)       { o.Limit = uint32(l) }
func (c Continue) applyList(o *ListOptions)    { o.Continue = string(c) }
func (i IndexedBy) applyList(o *ListOptions)   { o.IndexName, o.IndexValue = i.Name, i.Value }

func (u IfUID) applyDelete(o *DeleteOptions)             { o.UID = string(u) }
func (v IfResourceVersion) applyDelete(o *DeleteOptions) { o.ResourceVersion = string(v) }
func (p Propagation) applyDelete(o *DeleteOptions)       { o.Propagation = p }
func (g GracePeriodSeconds) applyDelete(o *DeleteOptions) {
	seconds := uint32(g)
	o.GracePeriodSeconds = &seconds
}

func (g GetOptions) applyGet(o *GetOptions)          { *o = g }
func (l ListOptions) applyList(o *ListOptions)       { *o = l }
func (w WriteOptions) applyWrite(o *WriteOptions)    { *o = w }
func (a ApplyOptions) applyApply(o *ApplyOptions)    { *o = a }
func (d DeleteOptions) applyDelete(o *DeleteOptions) { *o = d }

// collected applies the options, one after the other, to the zero value.
func collected[Option, All any](options []Option, apply func(Option, *All)) (all All) {
	for _, option := range options {
		apply(option, &all)
	}
	return all
}

func getOptions(options []GetOption) GetOptions    { return collected(options, GetOption.applyGet) }
func listOptions(options []ListOption) ListOptions { return collected(options, ListOption.applyList) }
func writeOptions(options []WriteOption) WriteOptions {
	return collected(options, WriteOption.applyWrite)
}
func applyOptions(options []ApplyOption) ApplyOptions {
	return collected(options, ApplyOption.applyApply)
}
func deleteOptions(options []DeleteOption) DeleteOptions {
	return collected(options, DeleteOption.applyDelete)
}
