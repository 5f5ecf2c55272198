// Package types has what the generated bindings are made of: the generic types of WIT.
package types

// Option is a value or none.
type Option[T any] struct {
	value T
	some  bool
}

// Some is a value.
func Some[T any](value T) Option[T] { return Option[T]{value, true} }

// None is no value.
func None[T any]() Option[T] { return Option[T]{} }

// The tags of an [Option].
const (
	OptionNone = 0
	OptionSome = 1
)

// Tag is the case.
func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

// IsSome reports whether there is a value.
func (o Option[T]) IsSome() bool { return o.some }

// Some is the value; the zero value where there is none.
func (o Option[T]) Some() T { return o.value }

// Result is what a function answered: a value, or why it failed.
type Result[T, E any] struct {
	value  T
	err    E
	failed bool
}

// Ok is a value.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{value: value} }

// Err is a failure.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{err: err, failed: true} }

// The tags of a [Result].
const (
	ResultOk  = 0
	ResultErr = 1
)

// Tag is the case.
func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

// IsErr reports whether it failed.
func (r Result[T, E]) IsErr() bool { return r.failed }

// Ok is the value; the zero value of a failure.
func (r Result[T, E]) Ok() T { return r.value }

// Err is the failure; the zero value where there is none.
func (r Result[T, E]) Err() E { return r.err }

// Unit is no value.
type Unit struct{}

// Tuple2 is two values.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// Tuple3 is three values.
type Tuple3[A, B, C any] struct {
	F0 A
	F1 B
	F2 C
}

// Tuple5 is five values.
type Tuple5[A, B, C, D, E any] struct {
	F0 A
	F1 B
	F2 C
	F3 D
	F4 E
}
