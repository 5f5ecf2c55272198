package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"windlass.dev/windlass"
)

// codes: errors of a server, errors of the host, and answers that cannot be read.
func codes(s *scene) error {
	for _, answer := range []string{
		"400", "401", "403", "409", "410", "418", "429", "500", "503", "504", "cut", "endless",
	} {
		if _, err := s.get("answers-"+answer, windlass.Live); err != nil {
			if err := refused(answer, err); err != nil {
				return err
			}
		}
	}
	for _, kind := range []windlass.GroupVersionKind{windlass.GVK("v1", "Pod"), windlass.GVK("apps/v1", "Submarine")} {
		if _, err := s.cluster.Get(kind, s.at("nothing")); err != nil {
			if err := refused(kind.Kind, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// limits: more operations than a batch may have.
func limits(s *scene) error {
	operations := make([]windlass.Operation, 21)
	for i := range operations {
		operations[i] = windlass.OpGet(configMaps, s.at("apple"))
	}
	replies := s.cluster.Batch(operations...)
	slog.Info("limits", "replies", len(replies))
	if len(replies) > 0 && replies[0].Err != nil {
		return refused("too many", replies[0].Err)
	}
	return nil
}

// cancelled: a call that the host ends at its deadline.
func cancelled(s *scene) error {
	if _, err := s.get("answers-never", windlass.Live); err != nil {
		return refused("cancelled", err)
	}
	return nil
}

// end ends the reconcile in the way of the case.
func end(name string, s *scene) (windlass.Result, error) {
	switch name {
	case "done":
		return windlass.Result{}, nil
	case "requeue":
		return windlass.Result{RequeueAfter: 90 * time.Second}, nil
	case "requeue-now":
		return windlass.Result{Requeue: true}, nil
	case "retry":
		return windlass.Result{}, errors.New("not yet")
	case "terminal":
		return windlass.Result{}, windlass.Terminal(errors.New("never"))
	case "terminal-cut":
		return windlass.Result{}, windlass.Terminal(errors.New(cut))
	case "retry-api":
		_, err := s.get("answers-503", windlass.Live)
		return windlass.Result{}, err
	case "terminal-api":
		if _, err := s.get("answers-503", windlass.Live); err != nil {
			return windlass.Result{}, windlass.Terminal(fmt.Errorf("reading: %w", err))
		}
		return windlass.Result{}, nil
	case "exception":
		return windlass.Result{}, errors.New("broken")
	default:
		return windlass.Result{}, windlass.Terminal(fmt.Errorf("there is no case %q", name))
	}
}
