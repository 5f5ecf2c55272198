// Objects that a server stored survive their types.
package main

import (
	"testing"

	"windlass.dev/windlass/windlasstest"
)

func TestStoredObjectsSurvive(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	survives(alpha, t, "cluster", func(cluster *Cluster) {
		cluster.Labels["kept"] = "yes"
		cluster.Spec.Topology.Version = "v1.35.0"
	})
	survives(alpha, t, "cluster_class", func(class *ClusterClass) {
		class.Labels["kept"] = "yes"
		class.Spec.Variables[0].Required = false
	})
	survives(alpha, t, "config_map", func(page *ConfigMap) {
		page.Labels["kept"] = "yes"
		page.Data["b"] = "2"
	})
	survives(alpha, t, "custom_resource_definition", func(definition *CustomResourceDefinition) {
		definition.Labels["kept"] = "yes"
		definition.Spec.Versions[0].Served = false
	})
	survives(alpha, t, "deployment", func(servers *Deployment) {
		servers.Labels["kept"] = "yes"
		*servers.Spec.Replicas = 3
	})
	survives(alpha, t, "issuer", func(issuer *Issuer) {
		issuer.Labels["kept"] = "yes"
		issuer.Spec.Acme.Server = "https://other.example.com"
	})
	survives(alpha, t, "machine_deployment", func(machines *MachineDeployment) {
		machines.Labels["kept"] = "yes"
		*machines.Spec.Replicas = 3
	})
	survives(alpha, t, "pod", func(pod *Pod) {
		pod.Labels["kept"] = "yes"
		*pod.Spec.Containers[0].Image = "nginx:2"
	})
	survives(alpha, t, "stored_odd", changeOdd)
}
