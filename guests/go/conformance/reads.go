package main

import (
	"iter"
	"log/slog"

	"windlass.dev/windlass"
)

// read: from the cache and from the server; parts of an object; absent objects.
func read(s *scene) error {
	slog.Info("cluster", "name", s.cluster.Name())

	cached, err := s.get("apple")
	if err != nil {
		return err
	}
	live, err := s.get("apple", windlass.Live)
	if err != nil {
		return err
	}
	slog.Info("color", "cached", cached.value("color"), "live", live.value("color"))

	for _, c := range []struct {
		call    string
		options windlass.GetOptions
	}{
		{"cached metadata", windlass.GetOptions{MetadataOnly: true}},
		{"live metadata", windlass.GetOptions{MetadataOnly: true, Live: true}},
	} {
		found, err := s.present(configMaps, "apple", c.options)
		if err != nil {
			return err
		}
		slog.Info(c.call, "fruit", at(found, "metadata", "labels", "fruit"), "color", at(found, "data", "color"))
	}

	scale, err := s.present(deployments, "web", windlass.Subresource("scale"))
	if err != nil {
		return err
	}
	slog.Info("scale", "kind", at(scale, "kind"), "replicas", at(scale, "spec", "replicas"))

	cached, err = s.get("nothing")
	if err != nil {
		return err
	}
	live, err = s.get("nothing", windlass.Live)
	if err != nil {
		return err
	}
	slog.Info("absent", "cached", cached == nil, "live", live == nil)

	namespace, err := s.cluster.Get(windlass.GVK("v1", "Namespace"), windlass.ObjectKey{Name: s.key.Namespace}, windlass.Live)
	if err != nil {
		return err
	}
	slog.Info("namespace", "phase", at(namespace, "status", "phase"))
	return nil
}

// list: by label, index and field; page by page; in one namespace and in all.
func list(s *scene) error {
	here := windlass.InNamespace(s.key.Namespace)
	fruit := windlass.Labels("set=fruit")
	for _, l := range []struct {
		call   string
		option windlass.ListOption
	}{
		{"by label", fruit},
		{"by index", windlass.IndexedBy{Name: "color", Value: "red"}},
		{"by field", windlass.Fields("metadata.name=banana")},
	} {
		found, err := collect(windlass.ListAll[ConfigMap](s.cluster, here, l.option))
		if err != nil {
			return err
		}
		slog.Info(l.call, "names", named(found))
	}

	token := ""
	for _, call := range []string{"first page", "second page"} {
		page, err := s.cluster.List(configMaps, here, fruit, windlass.Limit(2), windlass.Continue(token))
		if err != nil {
			return err
		}
		slog.Info(call, "names", named(page.Items), "more", page.Continue != "", "versioned", page.ResourceVersion != "")
		token = page.Continue
	}

	all, err := collect(windlass.ListAll[ConfigMap](s.cluster, here, fruit, windlass.Limit(2), windlass.Live))
	if err != nil {
		return err
	}
	slog.Info("page by page", "names", named(all))

	metadata, err := collect(s.cluster.ListAll(configMaps, here, fruit, windlass.Live, windlass.MetadataOnly))
	if err != nil {
		return err
	}
	withData := 0
	for _, object := range metadata {
		if object.At("data") != nil {
			withData++
		}
	}
	slog.Info("metadata", "names", named(metadata), "with_data", withData)

	everywhere, err := collect(windlass.ListAll[ConfigMap](s.cluster, windlass.Labels("of="+s.key.Namespace), windlass.Live))
	if err != nil {
		return err
	}
	slog.Info("everywhere", "names", named(everywhere))
	return nil
}

// collect reads an iteration to its end or its error.
func collect[T any](objects iter.Seq2[T, error]) (all []T, err error) {
	for object, err := range objects {
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}

// many: so many reads that the garbage collector must run.
func many(s *scene) error {
	count := 0
	for range 3000 {
		apple, err := s.get("apple")
		if err != nil {
			return err
		}
		if apple != nil {
			count++
		}
	}
	slog.Info("many", "read", count)
	return nil
}
