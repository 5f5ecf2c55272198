package windlass

import (
	"context"
	"log/slog"
)

// LogField is a value of a log line, with its name.
type LogField struct{ Name, Value string }

// handler writes slog's lines to the host's log, which adds tenant, reconciler, cluster and reconcile id. Groups become
// prefixes of the names.
type handler struct {
	fields []LogField
	prefix string
}

func (handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, record slog.Record) error {
	fields := make([]LogField, len(h.fields), len(h.fields)+record.NumAttrs())
	copy(fields, h.fields)
	record.Attrs(func(attr slog.Attr) bool {
		fields = flatten(fields, h.prefix, attr)
		return true
	})
	hostLog(record.Level, record.Message, fields)
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := append([]LogField(nil), h.fields...)
	for _, attr := range attrs {
		fields = flatten(fields, h.prefix, attr)
	}
	return handler{fields, h.prefix}
}

func (h handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return handler{h.fields, h.prefix + name + "."}
}

func flatten(fields []LogField, prefix string, attr slog.Attr) []LogField {
	value := attr.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if attr.Key == "" && value.Equal(slog.Value{}) {
			return fields // slog requires handlers to omit empty groups
		}
		return append(fields, LogField{prefix + attr.Key, value.String()})
	}
	if attr.Key != "" {
		prefix += attr.Key + "."
	}
	for _, inner := range value.Group() {
		fields = flatten(fields, prefix, inner)
	}
	return fields
}
