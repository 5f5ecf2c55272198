package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"windlass.dev/windlass"
)

// http: calls that a rule allows, one without an answer, and calls that no rule allows.
func http(s *scene) error {
	server := s.primary.value("server")
	answer, err := windlass.HTTPDo(windlass.HTTPRequest{
		URL: server + "/status/429", Header: windlass.HTTPHeader{"x-key": {"k"}},
	})
	if err != nil {
		return err
	}
	slog.Info("answered", "status", answer.Status, "wait", answer.Header.Get("retry-after"), "body", string(answer.Body))
	var failed *windlass.HTTPStatusError
	if errors.As(answer.Success(), &failed) {
		wait := none
		if failed.RetryAfter != nil {
			wait = fmt.Sprint(failed.RetryAfter.Milliseconds())
		}
		slog.Info("failed", "status", failed.Status, "message", failed, "wait", wait)
	}
	if err := post(server); err != nil {
		return err
	}
	for _, call := range []struct {
		name    string
		request windlass.HTTPRequest
	}{
		{"late", windlass.HTTPRequest{URL: server + "/never", Timeout: 100 * time.Millisecond}},
		{"method", windlass.HTTPRequest{Method: "DELETE", URL: server + "/body"}},
		{"host", windlass.HTTPRequest{URL: "https://api.example.com/v1"}},
	} {
		if _, err := windlass.HTTPDo(call.request); err != nil {
			if err := refused(call.name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted is the body of the call that has one.
type wanted struct {
	Count int    `json:"count"`
	Text  string `json:"text"`
}

// post makes a call with a body and a header that is the operator's.
func post(server string) error {
	answer, err := windlass.HTTPDo(windlass.HTTPRequest{
		Method: "POST", URL: server + "/body", JSON: wanted{3, "żółty"},
		Header: windlass.HTTPHeader{"x-key": {"k"}, "authorization": {"own"}},
	})
	if err != nil {
		return err
	}
	if err := answer.Success(); err != nil {
		return err
	}
	var got wanted
	if err := answer.JSON(&got); err != nil {
		return err
	}
	slog.Info("posted", "status", answer.Status, "type", answer.Header.Get("content-type"), "count", got.Count, "text", got.Text)
	return nil
}
