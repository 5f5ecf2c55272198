package main

import (
	"encoding/json"
	"log/slog"
	"strings"

	"windlass.dev/windlass"
)

// said is text that differs in every encoding.
const said = "żółć 🍐 \"quoted\" \\ back\tslash\u007f </end>\n"

// create: a new object, an existing one, and an invalid one.
func create(s *scene) error {
	pear := with(s.at("pear"), "color", "green")
	pear.Labels = map[string]string{"fruit": "pear"}
	created, err := windlass.Create(s.cluster, pear)
	if err != nil {
		return err
	}
	slog.Info("created", "color", created.value("color"), "stored", created.UID != "")
	if _, err := windlass.Create(s.cluster, pear); err != nil {
		if err := refused("again", err); err != nil {
			return err
		}
	}
	if _, err := windlass.Create(s.cluster, with(s.at("Wrong"))); err != nil {
		if err := refused("wrong", err); err != nil {
			return err
		}
	}
	found, err := s.get("pear")
	if err != nil {
		return err
	}
	slog.Info("read", "color", found.value("color"))
	return nil
}

// update: a conflict, solved by a new read; dry; without a version; numbers of more than 32 bits.
func update(s *scene) error {
	stale, err := s.present(configMaps, "apple")
	if err != nil {
		return err
	}
	grow := windlass.MergePatch(map[string]any{"data": map[string]any{"size": "2"}})
	if _, err := s.cluster.Patch(configMaps, s.at("apple"), grow); err != nil {
		return err
	}
	stale.Set("green", "data", "color")
	updated, err := s.cluster.Update(stale)
	if windlass.IsConflict(err) {
		if err := refused("stale", err); err != nil {
			return err
		}
		fresh, err := s.present(configMaps, "apple")
		if err != nil {
			return err
		}
		fresh.Set("green", "data", "color")
		if updated, err = s.cluster.Update(fresh); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	slog.Info("updated", "color", at(updated, "data", "color"), "size", at(updated, "data", "size"))

	updated.Set("blue", "data", "color")
	answered, err := s.cluster.Update(updated, windlass.DryRun)
	if err != nil {
		return err
	}
	stored, err := s.get("apple")
	if err != nil {
		return err
	}
	slog.Info("dry", "answered", at(answered, "data", "color"), "stored", stored.value("color"))

	brown := with(s.at("apple"), "color", "brown")
	brown.Labels = map[string]string{"set": "fruit"}
	replaced, err := windlass.Update(s.cluster, brown)
	if err != nil {
		return err
	}
	slog.Info("replaced", "color", replaced.value("color"), "size", replaced.value("size"))

	web, err := s.present(deployments, "web", windlass.Live)
	if err != nil {
		return err
	}
	web.Set(3, "spec", "replicas")
	scaled, err := s.cluster.Update(web)
	if err != nil {
		return err
	}
	slog.Info("scaled", "replicas", at(scaled, "spec", "replicas"),
		"grace", at(scaled, "spec", "template", "spec", "terminationGracePeriodSeconds"))
	return nil
}

// patch: the three types; dry run; of an absent object.
func patch(s *scene) error {
	apple := s.at("apple")
	patched, err := windlass.PatchAs[ConfigMap](s.cluster, apple, windlass.JSONPatch(
		windlass.PatchOperation{Op: "test", Path: "/data/color", Value: "red"},
		windlass.PatchOperation{Op: "add", Path: "/data/shape", Value: "round"},
	))
	if err != nil {
		return err
	}
	slog.Info("json", "color", patched.value("color"), "shape", patched.value("shape"))

	patched, err = windlass.PatchAs[ConfigMap](s.cluster, apple, windlass.MergePatch(
		map[string]any{"data": map[string]any{"color": nil, "size": "3"}},
	))
	if err != nil {
		return err
	}
	slog.Info("merge", "color", patched.value("color"), "size", patched.value("size"))

	image := windlass.Object{}
	image.Set([]any{map[string]any{"name": "app", "image": "app:2"}}, "spec", "template", "spec", "containers")
	web, err := s.cluster.Patch(deployments, s.at("web"), windlass.StrategicPatch(image))
	if err != nil {
		return err
	}
	slog.Info("strategic", "first", containerImage(web, 0), "second", containerImage(web, 1))

	size := windlass.MergePatch(map[string]any{"data": map[string]any{"size": "4"}})
	answered, err := windlass.PatchAs[ConfigMap](s.cluster, apple, size, windlass.DryRun)
	if err != nil {
		return err
	}
	stored, err := s.get("apple")
	if err != nil {
		return err
	}
	slog.Info("dry", "answered", answered.value("size"), "stored", stored.value("size"))

	if _, err := s.cluster.Patch(configMaps, s.at("nothing"), size); err != nil {
		return refused("absent", err)
	}
	return nil
}

func containerImage(web windlass.Object, index int) any {
	containers, _ := web.At("spec", "template", "spec", "containers").([]any)
	if index >= len(containers) {
		return none
	}
	container, _ := containers[index].(map[string]any)
	return at(container, "image")
}

// apply: with an owner; a field that is dropped; one of another manager, and taking it over; dry.
func apply(s *scene) error {
	wanted := with(s.at("fig"), "color", "purple", "size", "1")
	wanted.OwnerReferences = []windlass.OwnerReference{s.primary.ControllerReference(configMaps)}
	applied, err := windlass.Apply(s.cluster, wanted)
	if err != nil {
		return err
	}
	owner := none
	if controller := applied.Controller(); controller != nil {
		owner = controller.Name
	}
	slog.Info("applied", "color", applied.value("color"), "size", applied.value("size"), "owner", owner)

	delete(wanted.Data, "size")
	if applied, err = windlass.Apply(s.cluster, wanted); err != nil {
		return err
	}
	slog.Info("dropped", "color", applied.value("color"), "size", applied.value("size"))

	apple := with(s.at("apple"), "color", "blue")
	if _, err := windlass.Apply(s.cluster, apple); err != nil {
		if err := refused("theirs", err); err != nil {
			return err
		}
	}
	taken, err := windlass.Apply(s.cluster, apple, windlass.Force)
	if err != nil {
		return err
	}
	slog.Info("taken", "color", taken.value("color"))

	wanted.Data["color"] = "white"
	answered, err := windlass.Apply(s.cluster, wanted, windlass.DryRun)
	if err != nil {
		return err
	}
	stored, err := s.get("fig")
	if err != nil {
		return err
	}
	slog.Info("dry", "answered", answered.value("color"), "stored", stored.value("color"))
	return nil
}

// status: without the other fields, by patch and by update.
func status(s *scene) error {
	ready := windlass.MergePatch(map[string]any{"status": map[string]any{"replicas": 2, "readyReplicas": 1}})
	patched, err := s.cluster.Patch(deployments, s.at("web"), ready, windlass.Status)
	if err != nil {
		return err
	}
	slog.Info("patched", "ready", at(patched, "status", "readyReplicas"))

	web, err := s.present(deployments, "web", windlass.Live)
	if err != nil {
		return err
	}
	web.Set(2, "status", "readyReplicas")
	web.Set(9, "spec", "replicas")
	updated, err := s.cluster.Update(web, windlass.Status)
	if err != nil {
		return err
	}
	slog.Info("updated", "ready", at(updated, "status", "readyReplicas"), "replicas", at(updated, "spec", "replicas"))
	return nil
}

// remove: with preconditions that fail and that hold; an absent object; dry run; with every option.
func remove(s *scene) error {
	if err := s.cluster.Delete(configMaps, s.at("apple"), windlass.IfUID("another")); err != nil {
		if err := refused("uid", err); err != nil {
			return err
		}
	}
	if err := s.cluster.Delete(configMaps, s.at("banana"), windlass.IfResourceVersion("1")); err != nil {
		if err := refused("version", err); err != nil {
			return err
		}
	}

	apple, err := s.get("apple")
	if err != nil {
		return err
	}
	deleted, err := gone(s.cluster.Delete(configMaps, s.at("apple"),
		windlass.IfUID(apple.UID), windlass.IfResourceVersion(apple.ResourceVersion)))
	if err != nil {
		return err
	}
	again, err := gone(s.cluster.Delete(configMaps, s.at("apple")))
	if err != nil {
		return err
	}
	left, err := s.get("apple")
	if err != nil {
		return err
	}
	slog.Info("deleted", "deleted", deleted, "again", again, "gone", left == nil)

	deleted, err = gone(s.cluster.Delete(configMaps, s.at("banana"), windlass.DryRun))
	if err != nil {
		return err
	}
	banana, err := s.get("banana")
	if err != nil {
		return err
	}
	slog.Info("dry", "deleted", deleted, "there", banana != nil)

	deleted, err = gone(s.cluster.Delete(configMaps, s.at("cherry"), windlass.Background, windlass.GracePeriodSeconds(0)))
	if err != nil {
		return err
	}
	slog.Info("at once", "deleted", deleted)
	return nil
}

// gone reports whether there was an object to delete.
func gone(err error) (bool, error) { return err == nil, windlass.IgnoreNotFound(err) }

// ensure: objects in every form that a server may keep otherwise.
func ensure(s *scene) error {
	var objects []windlass.Object
	if err := json.Unmarshal([]byte(s.primary.value("objects")), &objects); err != nil {
		return err
	}
	for _, object := range objects {
		object.Set(s.key.Namespace, "metadata", "namespace")
		written, err := s.cluster.Ensure(object)
		if err != nil {
			return err
		}
		slog.Info("ensured", "kind", object.GVK().Kind, "name", object.Key().Name, "effect", string(written.Effect))
	}
	return nil
}

// collection: many objects with one call, by label.
func collection(s *scene) error {
	red := windlass.Selection{Namespace: s.key.Namespace, LabelSelector: "color=red"}
	if err := s.cluster.DeleteCollection(configMaps, red); err != nil {
		return err
	}
	left, err := collect(windlass.ListAll[ConfigMap](
		s.cluster, windlass.InNamespace(s.key.Namespace), windlass.Labels("set=fruit"), windlass.Live))
	if err != nil {
		return err
	}
	slog.Info("left", "names", named(left))
	return nil
}

// batch: every operation in one batch.
func batch(s *scene) error {
	apple, err := s.present(configMaps, "apple")
	if err != nil {
		return err
	}
	apple.Set("7", "data", "size")
	size := windlass.MergePatch(map[string]any{"data": map[string]any{"size": "9"}})
	for _, reply := range s.cluster.Batch(
		windlass.OpGet(configMaps, s.key),
		windlass.OpGet(configMaps, s.at("nothing")),
		windlass.OpCreate(with(s.at("pear"), "color", "green")),
		windlass.OpCreate(with(s.at("banana"))),
		windlass.OpUpdate(apple),
		windlass.OpPatch(configMaps, s.at("banana"), size),
		windlass.OpApply(with(s.at("fig"), "color", "purple")),
		windlass.OpDelete(configMaps, s.at("cherry")),
		windlass.OpDelete(configMaps, s.at("nothing")),
		windlass.OpList(configMaps, windlass.InNamespace(s.key.Namespace), windlass.Fields("metadata.name=banana")),
	) {
		if err := answered(reply); err != nil {
			return err
		}
	}
	return nil
}

// answered logs an answer of a batch.
func answered(reply windlass.Reply) error {
	if reply.Err != nil {
		return refused("refused", reply.Err)
	}
	if reply.Page != nil {
		objects, err := reply.Objects()
		slog.Info("page", "names", named(objects))
		return err
	}
	object, err := reply.Object()
	if err != nil {
		return err
	}
	if object == nil {
		slog.Info("nothing")
		return nil
	}
	slog.Info("object", "name", object.Key().Name, "color", at(object, "data", "color"), "size", at(object, "data", "size"))
	return nil
}

// text: a round trip of unusual text.
func text(s *scene) error {
	if _, err := windlass.Create(s.cluster, with(s.at("text"), "text", said)); err != nil {
		return err
	}
	found, err := s.get("text", windlass.Live)
	if err != nil {
		return err
	}
	slog.Info("text", "same", found.value("text") == said, "text", said)
	return nil
}

// large: a round trip of an object of 300 KB.
func large(s *scene) error {
	if _, err := windlass.Create(s.cluster, with(s.at("large"), "text", strings.Repeat("0123456789", 30_000))); err != nil {
		return err
	}
	found, err := s.get("large")
	if err != nil {
		return err
	}
	slog.Info("large", "length", len(found.value("text")))
	return nil
}
