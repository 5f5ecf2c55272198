package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Code is why a call failed.
type Code string

// Why a call failed.
const (
	// CodeNotFound: the object does not exist (404). A get answers nil instead.
	CodeNotFound Code = "not-found"
	// CodeAlreadyExists: an object of this name exists already (409).
	CodeAlreadyExists Code = "already-exists"
	// CodeConflict: the object has changed since it was read, or another manager owns a field (409).
	CodeConflict Code = "conflict"
	// CodeInvalid: the object or the call is not valid (400, 422).
	CodeInvalid Code = "invalid"
	// CodeUnauthorized: the host's credentials were refused (401).
	CodeUnauthorized Code = "unauthorized"
	// CodeForbidden: refused by the API server (403).
	CodeForbidden Code = "forbidden"
	// CodeDenied: refused by the host, as no rule grants it; the message contains the missing rule.
	CodeDenied Code = "denied"
	// CodeUnknownKind: the cluster does not serve this kind.
	CodeUnknownKind Code = "unknown-kind"
	// CodeThrottled: too many requests (429).
	CodeThrottled Code = "throttled"
	// CodeExpired: a resource version or continue token is too old (410): start over.
	CodeExpired Code = "expired"
	// CodeTimeout: no answer within the deadline.
	CodeTimeout Code = "timeout"
	// CodeUnavailable: the server cannot be reached or is failing (5xx).
	CodeUnavailable Code = "unavailable"
	// CodeLimitExceeded: a limit of the host was hit.
	CodeLimitExceeded Code = "limit-exceeded"
	// CodeClusterGone: the cluster left the fleet.
	CodeClusterGone Code = "cluster-gone"
	// CodeCancelled: the host is ending this call: return now.
	CodeCancelled Code = "cancelled"
	// CodeOther: anything else: see the HTTP status.
	CodeOther Code = "other"
)

// codes are in the order of the contract.
var codes = [...]Code{
	CodeNotFound, CodeAlreadyExists, CodeConflict, CodeInvalid, CodeUnauthorized, CodeForbidden, CodeDenied, CodeUnknownKind,
	CodeThrottled, CodeExpired, CodeTimeout, CodeUnavailable, CodeLimitExceeded, CodeClusterGone, CodeCancelled, CodeOther,
}

// APIError is a call to a cluster, or of a server that is no API server, that failed.
type APIError struct {
	// Code is the code to branch on.
	Code Code
	// Status is the HTTP status; 0 where there was no answer.
	Status int
	// Reason is the API server's machine-readable reason, or the host's.
	Reason string
	// Message is for people.
	Message string
	// Details are the API server's: field errors, causes; nil where there are none.
	Details json.RawMessage
	// RetryAfter is the delay that the server asked for; nil if it asked for none. The host keeps to it by itself.
	RetryAfter *time.Duration
}

// Error is for people.
func (e *APIError) Error() string { return string(e.Code) + ": " + e.Message }

// Timeout reports whether no answer came in time, as errors of package net do.
func (e *APIError) Timeout() bool { return e.Code == CodeTimeout }

// CodeOf is the code of the [APIError] in err's tree; "" where there is none.
func CodeOf(err error) Code {
	var failed *APIError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return ""
}

// IsNotFound reports whether the object does not exist.
func IsNotFound(err error) bool { return CodeOf(err) == CodeNotFound }

// IsAlreadyExists reports whether an object of this name exists already.
func IsAlreadyExists(err error) bool { return CodeOf(err) == CodeAlreadyExists }

// IsConflict reports whether the object has changed since it was read, or another manager owns a field.
func IsConflict(err error) bool { return CodeOf(err) == CodeConflict }

// IsInvalid reports whether the object or the call is not valid.
func IsInvalid(err error) bool { return CodeOf(err) == CodeInvalid }

// IsForbidden reports whether the API server refused.
func IsForbidden(err error) bool { return CodeOf(err) == CodeForbidden }

// IsDenied reports whether the host refused, as no rule grants the call.
func IsDenied(err error) bool { return CodeOf(err) == CodeDenied }

// IsExpired reports whether a resource version or continue token is too old.
func IsExpired(err error) bool { return CodeOf(err) == CodeExpired }

// IgnoreNotFound is nil for the absence of an object, and err otherwise.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// Terminal makes err a failure that is not retried before an event. Nil stays nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminal{err}
}

// IsTerminal reports whether err waits for the next event.
func IsTerminal(err error) bool {
	var final *terminal
	return errors.As(err, &final)
}

// NotReady makes the error of a reconcile that waits for something: it runs again after this time, or earlier after an event, and counts as
// succeeded. The message is in the log.
func NotReady(after time.Duration, format string, values ...any) error {
	return &notReady{after, fmt.Sprintf(format, values...)}
}

type notReady struct {
	after time.Duration
	why   string
}

func (n *notReady) Error() string { return n.why }

type terminal struct{ error }

func (t *terminal) Unwrap() error { return t.error }

// unfit is the error for an object that cannot be encoded or decoded.
func unfit(how string, what any, err error) error {
	return failing(&APIError{Code: CodeInvalid, Reason: "Invalid", Message: fmt.Sprintf("cannot %s %v: %v", how, what, err)})
}
