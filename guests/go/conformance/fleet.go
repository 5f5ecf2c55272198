package main

import (
	"log/slog"
	"slices"
	"strings"

	"windlass.dev/windlass"
)

// clusters: all granted clusters, some by label, and an invalid selector.
func clusters(*scene) error {
	all, err := windlass.Clusters("")
	if err != nil {
		return err
	}
	for _, info := range all {
		slog.Info("cluster",
			"name", info.Name, "labels", pairs(info.Labels), "properties", pairs(info.Properties), "ready", info.Ready)
	}
	second, err := windlass.Clusters("tier=second")
	if err != nil {
		return err
	}
	slog.Info("by label", "names", clusterNames(second))
	if _, err := windlass.Clusters("tier in ("); err != nil {
		return refused("no selector", err)
	}
	return nil
}

func pairs(fields map[string]string) string {
	pairs := make([]string, 0, len(fields))
	for name, value := range fields {
		pairs = append(pairs, name+":"+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// open: reads and writes in a granted cluster; clusters that are not granted or not there.
func open(s *scene) error {
	beta, err := windlass.Open("beta")
	if err != nil {
		return err
	}
	apple, err := windlass.Get[ConfigMap](beta, s.at("apple"))
	if err != nil {
		return err
	}
	slog.Info("opened", "name", beta.Name(), "color", apple.value("color"))
	sent, err := windlass.Create(beta, with(s.at("sent"), "from", s.cluster.Name()))
	if err != nil {
		return err
	}
	slog.Info("sent", "from", sent.value("from"))
	for _, name := range []string{"gamma", "bye", ""} {
		if _, err := windlass.Open(name); err != nil {
			if err := refused("not opened", err); err != nil {
				return err
			}
		}
	}
	return nil
}

// across: a batch over several clusters.
func across(s *scene) error {
	get := windlass.OpGet(configMaps, s.at("apple"))
	for _, reply := range windlass.BatchAcross(
		windlass.In{Cluster: "alpha", Operation: get},
		windlass.In{Cluster: "beta", Operation: get},
		windlass.In{Cluster: "gamma", Operation: get},
		windlass.In{Cluster: "beta", Operation: windlass.OpCreate(with(s.at("pear"), "color", "green"))},
		windlass.In{Cluster: "bye", Operation: windlass.OpDelete(configMaps, s.at("apple"))},
	) {
		if err := answered(reply); err != nil {
			return err
		}
	}
	return nil
}
