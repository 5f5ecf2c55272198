package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"windlass.dev/windlass"
)

var (
	configMaps  = windlass.GVK("v1", "ConfigMap")
	deployments = windlass.GVK("apps/v1", "Deployment")
)

// none is the text of a log line for an absent value.
const none = "none"

// ConfigMap is a ConfigMap with the fields that matter here.
type ConfigMap struct {
	windlass.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

// GVK is the kind.
func (ConfigMap) GVK() windlass.GroupVersionKind { return configMaps }

// with is a ConfigMap with this data: names and values in turn.
func with(key windlass.ObjectKey, data ...string) *ConfigMap {
	m := &ConfigMap{ObjectMeta: windlass.ObjectMeta{Name: key.Name, Namespace: key.Namespace}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

// value is one of the data.
func (m *ConfigMap) value(name string) string {
	if m != nil {
		if value, ok := m.Data[name]; ok {
			return value
		}
	}
	return none
}

// at is a value of an object as it is logged.
func at(object windlass.Object, path ...string) any {
	if value := object.At(path...); value != nil {
		return value
	}
	return none
}

// named are the names of objects, separated by commas.
func named[T windlass.Identified](objects []T) string {
	names := make([]string, len(objects))
	for i, object := range objects {
		names[i] = object.Key().Name
	}
	return strings.Join(names, ",")
}

func clusterNames(infos []windlass.ClusterInfo) string {
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Name
	}
	return strings.Join(names, ",")
}

// refused logs a call that failed, with all fields of its error. Another error than the API's is returned.
func refused(call string, err error) error {
	var failed *windlass.APIError
	if !errors.As(err, &failed) {
		return err
	}
	var details struct {
		Name   string
		Causes []struct{ Field string }
	}
	if failed.Details != nil {
		if err := json.Unmarshal(failed.Details, &details); err != nil {
			return err
		}
	}
	about, field, wait := none, none, none
	if details.Name != "" {
		about = details.Name
	}
	if len(details.Causes) > 0 && details.Causes[0].Field != "" {
		field = details.Causes[0].Field
	}
	if failed.RetryAfter != nil {
		wait = fmt.Sprint(failed.RetryAfter.Milliseconds())
	}
	slog.Info(call, "code", failed.Code, "status", failed.Status, "reason", failed.Reason, "message", failed.Message,
		"about", about, "field", field, "wait", wait)
	return nil
}
