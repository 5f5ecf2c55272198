//go:build wasip1

// Package runtime is what the generated bindings stand on: memory that the host writes into, handles, and when the
// collector runs.
//
// The host allocates in the guest, through cabi_realloc, while it answers a call. A component may not call its host from
// there, but a collection does: it reads the clock. So the collector never runs by itself. [SafePoint] runs it, when a call begins and after
// calls to the host, where everything that the host wrote is held by values of Go. Between an allocation and the value that
// holds it no collection can be, so that nothing has to be pinned.
package runtime

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"unsafe"
)

// garbage is how much the heap grows, in bytes, at least, before it is collected; a larger heap grows to its double.
const garbage = 8 << 20

// Reading the size of the heap takes microseconds: it is read when so many calls to the host were made, or so many bytes
// came from it.
const (
	callsBetween = 64
	bytesBetween = 256 << 10
)

var (
	_         = debug.SetGCPercent(-1)
	heap      = []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	collectAt = uint64(garbage)
	calls     int
	received  uintptr
)

// Entered is called when the host calls an export.
func Entered() {
	calls, received = callsBetween, 0
	SafePoint()
}

// SafePoint is called where a collection may run: when nothing that the host wrote is still held by its address alone.
func SafePoint() {
	calls++
	if calls < callsBetween && received < bytesBetween {
		return
	}
	calls, received = 0, 0
	metrics.Read(heap)
	if heap[0].Value.Uint64() < collectAt {
		return
	}
	runtime.GC()
	metrics.Read(heap)
	live := heap[0].Value.Uint64()
	collectAt = live + max(live, garbage)
}

// Handle is an own handle of a resource, until it is dropped or given away.
type Handle struct{ value int32 }

// MakeHandle takes a handle from the host.
func MakeHandle(value int32) *Handle { return &Handle{value} }

// Use is the handle, for a call.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("windlass: the call that this cluster was for has ended")
	}
	return h.value
}

// Take is the handle, which the caller drops or gives away.
func (h *Handle) Take() int32 {
	value := h.value
	h.value = 0
	return value
}

// TakeOrNil is as [Handle.Take].
func (h *Handle) TakeOrNil() int32 { return h.Take() }

// Set puts a handle where there is none.
func (h *Handle) Set(value int32) { h.value = value }

// Allocate is zeroed memory for what is lowered, pinned by the bindings' own pinner until the call is over.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocate(size)
	if pointer != nil {
		pinner.Pin(pointer)
	}
	return pointer
}

// Unpin has nothing to do: what the host wrote is not pinned.
func Unpin() {}

// allocate is memory aligned to 8 bytes, the most that the contract needs. It holds no pointers that the collector would follow: the bindings
// keep what it points to.
func allocate(size uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
}

// Before the Go runtime has started, its own first calls of WASI have the adapter allocate its state: 64 KiB and a stack of
// the same size. That memory is this.
var (
	early     [160 << 10]byte
	earlyUsed uintptr
	started   bool
)

func init() { started = true }

// cabiRealloc gives the host memory to write into. The contract never resizes.
//
//go:wasmexport cabi_realloc
func cabiRealloc(_ unsafe.Pointer, _, align, size uintptr) unsafe.Pointer {
	if started {
		received += size
		return allocate(size)
	}
	base := uintptr(unsafe.Pointer(&early))
	start := (base+earlyUsed+align-1)&^(align-1) - base
	earlyUsed = start + size
	return unsafe.Pointer(&early[:earlyUsed][start])
}
