package main

import (
	"log/slog"
	"math/rand"
	"strings"
	"time"

	"windlass.dev/windlass"
)

// events: one event of each type.
func events(s *scene) error {
	s.cluster.Event(s.primary, "Checked", "all is well")
	s.cluster.Warn(with(s.at("apple")), "Odd", "the apple is odd: \"żółty\"")
	slog.Info("told")
	return nil
}

// cut is text whose last character is cut.
const cut = "half \xf0"

// logLines: each level; values that have to be quoted, are empty or have control characters; no values.
func logLines(*scene) error {
	slog.Debug("looked", "at", "apple")
	slog.Info("did", "what", "two words", "count", 2)
	slog.Warn("odd", "text", "żółty = \"yellow\"", "empty", "")
	slog.Error("broken", "line", "one\ntwo")
	slog.Info("no values")
	slog.Info("cut", "text", cut)
	return nil
}

// config: values of every type.
func config(*scene) error {
	var config struct {
		Greeting string
		Count    int
		List     []string
		Nested   struct{ Deep bool }
	}
	if err := windlass.Config(&config); err != nil {
		return err
	}
	slog.Info("config",
		"greeting", config.Greeting, "count", config.Count, "list", strings.Join(config.List, ","), "deep", config.Nested.Deep)
	return nil
}

// clock: the format of the time, and that it goes forward.
func clock(*scene) error {
	const form = "2006-01-02T15:04:05.000Z07:00"
	first, second := windlass.Now(), windlass.Now()
	text := first.Format(form)
	slog.Info("clock", "length", len(text), "zone", text[len(text)-1:], "forward", !second.Before(first.Truncate(time.Millisecond)))
	return nil
}

// random: two random numbers.
func random(*scene) error {
	slog.Info("random", "first", rand.Int63(), "second", rand.Int63())
	return nil
}
