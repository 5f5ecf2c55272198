// MongoDB's operator for tests: its own controllers, without the endpoint for metrics, whose port is fixed.
package main

import (
	"flag"
	"log"

	mongodb "github.com/mongodb/mongodb-kubernetes-operator/api/v1"
	"github.com/mongodb/mongodb-kubernetes-operator/controllers"
	"go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

// The flag --kubeconfig is controller-runtime's.
func main() {
	flag.Parse()
	logger, err := zap.NewDevelopment()
	check(err)
	zap.ReplaceGlobals(logger)
	cluster, err := config.GetConfig()
	check(err)
	all, err := manager.New(cluster, manager.Options{MetricsBindAddress: "0"})
	check(err)
	check(mongodb.AddToScheme(all.GetScheme()))
	check(controllers.NewReconciler(all).SetupWithManager(all))
	check(all.Start(signals.SetupSignalHandler()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
