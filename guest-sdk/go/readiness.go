package windlass

import (
	"fmt"
	"strings"
)

// Readiness is why an object is not ready; "" if it is. Deployments, StatefulSets, Services, Jobs and PersistentVolumeClaims are
// ready by their own rules, other objects by their condition Ready, else Available. An object without them is ready once it exists.
func Readiness(object Object) string {
	if object.Deleting() {
		return "it is being deleted"
	}
	kind := object.GVK()
	switch kind.Group + "/" + kind.Kind {
	case "apps/Deployment":
		return deploymentReadiness(object)
	case "apps/StatefulSet":
		return statefulSetReadiness(object)
	case "/Service":
		ingress, _ := object.At("status", "loadBalancer", "ingress").([]any)
		if object.String("spec", "type") == "LoadBalancer" && len(ingress) == 0 {
			return "its load balancer has no address"
		}
		return ""
	case "batch/Job":
		return jobReadiness(object)
	case "/PersistentVolumeClaim":
		if object.String("status", "phase") != "Bound" {
			return "it is not bound"
		}
		return ""
	}
	return otherReadiness(object)
}

func deploymentReadiness(object Object) string {
	wanted := wantedReplicas(object)
	updated, available := object.Int("status", "updatedReplicas"), object.Int("status", "availableReplicas")
	progressing := object.Condition("Progressing")
	old := object.Int("status", "replicas") - updated
	switch {
	case object.Int("status", "observedGeneration") < object.Int("metadata", "generation"):
		return unseen(object)
	case progressing != nil && progressing.Status == False && progressing.Reason == "ProgressDeadlineExceeded":
		return progressing.said()
	case updated < wanted:
		return fmt.Sprintf("%d of %d replicas are updated", updated, wanted)
	case old > 0:
		return fmt.Sprintf("%d old replicas are left", old)
	case available < wanted:
		return fmt.Sprintf("%d of %d replicas are available", available, wanted)
	}
	return ""
}

func statefulSetReadiness(object Object) string {
	wanted := wantedReplicas(object)
	newer := wanted - object.Int("spec", "updateStrategy", "rollingUpdate", "partition")
	updated, ready := object.Int("status", "updatedReplicas"), object.Int("status", "readyReplicas")
	switch {
	case object.Int("status", "observedGeneration") < object.Int("metadata", "generation"):
		return unseen(object)
	case updated < newer && object.String("spec", "updateStrategy", "type") != "OnDelete":
		return fmt.Sprintf("%d of %d replicas are updated", updated, newer)
	case ready < wanted:
		return fmt.Sprintf("%d of %d replicas are ready", ready, wanted)
	}
	return ""
}

func jobReadiness(object Object) string {
	if failed := object.Condition("Failed"); failed != nil && failed.Status == True {
		return failed.said()
	}
	if complete := object.Condition("Complete"); complete == nil || complete.Status != True {
		return "it is not complete"
	}
	return ""
}

func otherReadiness(object Object) string {
	found := object.Condition("Ready")
	if found == nil {
		found = object.Condition("Available")
	}
	if found == nil {
		return ""
	}
	generation := object.Int("metadata", "generation")
	for _, observed := range []any{object.conditionAt(found.Type)["observedGeneration"], object.At("status", "observedGeneration")} {
		if observed, ok := observed.(int64); ok && observed < generation {
			return unseen(object)
		}
	}
	if found.Status != True {
		return found.said()
	}
	return ""
}

func wantedReplicas(object Object) int64 {
	if object.At("spec", "replicas") == nil {
		return 1
	}
	return object.Int("spec", "replicas")
}

func unseen(object Object) string {
	return fmt.Sprintf("its controller has not seen its generation %d", object.Int("metadata", "generation"))
}

func (c *Condition) said() string {
	text := strings.Trim(c.Reason+": "+c.Message, ": ")
	if text == "" {
		return fmt.Sprintf("its condition %s is %s", c.Type, c.Status)
	}
	return text
}
