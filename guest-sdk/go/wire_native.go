//go:build !wasip1

package windlass

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The contract's types as lines of JSON have them: see guest-sdk/protocol.md.

// argument is an argument of a function.
type argument struct {
	name  string
	value any
}

// wireArguments are the function of an operation and its arguments, in the contract's order.
func wireArguments(operation Operation) (string, []argument) {
	kind, key := argument{"kind", wireKind(operation.Kind)}, argument{"key", wireKey(operation.Key)}
	object, write := argument{"object", operation.Text}, argument{"options", wireWrite(operation.Write)}
	switch operation.Verb {
	case VerbList:
		return "List", []argument{kind, {"options", wireList(operation.List)}}
	case VerbCreate:
		return "Create", []argument{kind, object, write}
	case VerbUpdate:
		return "Update", []argument{kind, object, write}
	case VerbPatch:
		patchType := [...]string{"JsonPatch", "Merge", "StrategicMerge"}[operation.PatchType]
		return "Patch", []argument{kind, key, {"patch_type", patchType}, {"patch", operation.Text}, write}
	case VerbApply:
		return "Apply", []argument{kind, object, {"options", fields{
			"subresource": orNull(operation.Apply.Subresource), "force": operation.Apply.Force, "dry_run": operation.Apply.DryRun,
		}}}
	case VerbDelete:
		return "Delete", []argument{kind, key, {"options", wireDelete(operation.Delete)}}
	default:
		return "Get", []argument{kind, key, {"options", fields{
			"mode": wireMode(operation.Get.Live), "projection": wireProjection(operation.Get.MetadataOnly),
			"subresource": orNull(operation.Get.Subresource),
		}}}
	}
}

// wireOperation is an operation of a batch.
func wireOperation(operation Operation) any {
	name, arguments := wireArguments(operation)
	values := make([]any, len(arguments))
	for i, argument := range arguments {
		values[i] = argument.value
	}
	return fields{name: values}
}

// orNull is null for "".
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func wireKind(kind GroupVersionKind) any {
	return fields{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}
}

func wireKey(key ObjectKey) any {
	return fields{"namespace": orNull(key.Namespace), "name": key.Name}
}

func wireMode(live bool) string {
	if live {
		return "Live"
	}
	return "Cached"
}

func wireProjection(metadataOnly bool) string {
	if metadataOnly {
		return "Metadata"
	}
	return "Full"
}

func wireList(options ListOptions) any {
	list := fields{
		"namespace": orNull(options.Namespace), "label_selector": orNull(options.LabelSelector),
		"field_selector": orNull(options.FieldSelector), "limit": options.Limit, "continue_token": orNull(options.Continue),
		"mode": wireMode(options.Live), "projection": wireProjection(options.MetadataOnly),
	}
	if options.IndexName != "" {
		list["index"] = [2]string{options.IndexName, options.IndexValue}
	}
	return list
}

func wireWrite(options WriteOptions) any {
	return fields{"subresource": orNull(options.Subresource), "dry_run": options.DryRun}
}

func wireDelete(options DeleteOptions) any {
	return fields{
		"uid": orNull(options.UID), "resource_version": orNull(options.ResourceVersion),
		"propagation": orNull(string(options.Propagation)), "grace_period_seconds": options.GracePeriodSeconds,
		"dry_run": options.DryRun,
	}
}

type wirePage struct {
	Items           []string
	ContinueToken   string `json:"continue_token"`
	ResourceVersion string `json:"resource_version"`
}

func (p wirePage) lifted() *Page[string] {
	return &Page[string]{Items: p.Items, Continue: p.ContinueToken, ResourceVersion: p.ResourceVersion}
}

type wireError struct {
	Code         string
	HTTPStatus   int `json:"http_status"`
	Reason       string
	Message      string
	Details      *string
	RetryAfterMs *int64 `json:"retry_after_ms"`
}

func (e *wireError) lifted() *APIError {
	failed := &APIError{Code: CodeOther, Status: e.HTTPStatus, Reason: e.Reason, Message: e.Message}
	for _, code := range codes {
		if caseOf(string(code)) == e.Code {
			failed.Code = code
		}
	}
	if e.Details != nil {
		failed.Details = json.RawMessage(*e.Details)
	}
	if e.RetryAfterMs != nil {
		after := time.Duration(*e.RetryAfterMs) * time.Millisecond
		failed.RetryAfter = &after
	}
	return failing(failed)
}

// caseOf is the name of a case in CamelCase: NotFound for not-found.
func caseOf(name string) string {
	var camel strings.Builder
	for _, word := range strings.Split(name, "-") {
		camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return camel.String()
}

// repliesOf are the replies to a batch.
func repliesOf(answer json.RawMessage) []Reply {
	answers := parse[[]json.RawMessage](answer)
	replies := make([]Reply, len(answers))
	for i, answer := range answers {
		reply, err := resultOf[json.RawMessage](answer)
		if err != nil {
			replies[i].Err = err
			continue
		}
		if string(reply) == `"Nothing"` {
			continue
		}
		lifted := parse[struct {
			Object string
			Page   *wirePage
		}](reply)
		replies[i].Text = lifted.Object
		if lifted.Page != nil {
			replies[i].Page = lifted.Page.lifted()
		}
	}
	return replies
}

// resultOf is the value of a result, or its error.
func resultOf[T any](answer json.RawMessage) (T, error) {
	result := parse[struct {
		Ok  T
		Err *wireError
	}](answer)
	if result.Err != nil {
		return result.Ok, result.Err.lifted()
	}
	return result.Ok, nil
}

// parse reads what the host has sent.
func parse[T any](text json.RawMessage) (value T) {
	if err := json.Unmarshal(text, &value); err != nil {
		panic(fmt.Sprintf("this is no answer of the host: %v; use the SDK of this version of windlass", err))
	}
	return value
}
