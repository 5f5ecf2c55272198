// The work of the benches `rivals` and `kcp` with Go's multicluster-runtime: for each ConfigMap labelled `bench=in` it keeps a ConfigMap
// `<name>-out` whose `data.echo` is the first one's `data.value`, and which is owned by it.
//
// Its argument is that of the benches' other subjects (`Given` in tests/suites/benches/rivals/work.rs). It prints `settled` once it has
// looked at every source, and works until it is killed.
//
// Everything is as the library has it by default, but for its endpoint for metrics, which would need a port: reads come from the caches,
// of which each cluster has one for both sorts of ConfigMaps, and one pool of workers serves all clusters.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/providers/clusters"
)

// Reconciles that run at once. The pool knows no bound for each cluster, so this is one for all of them.
const workers = 16

// The parts of the argument that matter here.
type given struct {
	// A kubeconfig for each cluster.
	Kubeconfigs []string `json:"kubeconfigs"`
	// Sources of each cluster.
	Objects int `json:"objects"`
}

func main() {
	log.SetFlags(0)
	ctrllog.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel)))
	if len(os.Args) != 2 {
		log.Fatal("usage: mcr GIVEN, in JSON")
	}
	var work given
	if err := json.Unmarshal([]byte(os.Args[1]), &work); err != nil {
		log.Fatalf("the argument: %v", err)
	}
	if err := run(ctrl.SetupSignalHandler(), work); err != nil {
		log.Fatal(err)
	}
}

// run works until its context ends.
func run(ctx context.Context, work given) error {
	if len(work.Kubeconfigs) == 0 {
		return errors.New("no kubeconfig is given")
	}
	provider := clusters.New()
	var first *rest.Config
	for _, path := range work.Kubeconfigs {
		config, err := load(path)
		if err != nil {
			return err
		}
		member, err := cluster.New(config)
		if err != nil {
			return fmt.Errorf("the cluster of %s: %w", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if err := provider.Add(ctx, multicluster.ClusterName(name), member); err != nil {
			return err
		}
		if first == nil {
			first = config
		}
	}
	// A manager needs a cluster of its own. Nothing watches it, so any will do.
	manager, err := mcmanager.New(first, provider, mcmanager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	echo := &echo{manager: manager, seen: map[mcreconcile.Request]struct{}{}, all: len(work.Kubeconfigs) * work.Objects}
	source := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetLabels()["bench"] == "in" })
	err = mcbuilder.ControllerManagedBy(manager).
		Named("echo").
		For(&corev1.ConfigMap{}, mcbuilder.WithPredicates(source)).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{MaxConcurrentReconciles: workers}).
		Complete(echo)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// load reads a kubeconfig. Its client has no limit of calls a second, as those of controller-runtime's own loader and those of the other
// subjects have none.
func load(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	config.QPS = -1
	return config, nil
}

// echo is the reconciler.
type echo struct {
	manager mcmanager.Manager
	lock    sync.Mutex
	// Sources that it has looked at, until that are all.
	seen map[mcreconcile.Request]struct{}
	all  int
}

// Reconcile does what the other subjects do: a merge patch of the one field where an echo is wrong, no write where it is right.
func (e *echo) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	member, err := e.manager.GetCluster(ctx, request.ClusterName)
	if err != nil {
		return ctrl.Result{}, err
	}
	api := member.GetClient()
	var source corev1.ConfigMap
	if err := api.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := keep(ctx, api, &source); err != nil {
		return ctrl.Result{}, err
	}
	e.looked(request)
	return ctrl.Result{}, nil
}

// keep makes the echo of a source right.
func keep(ctx context.Context, api client.Client, source *corev1.ConfigMap) error {
	wanted := source.Data["value"]
	key := client.ObjectKey{Namespace: source.Namespace, Name: source.Name + "-out"}
	var present corev1.ConfigMap
	err := api.Get(ctx, key, &present)
	switch {
	case err == nil && present.Data["echo"] == wanted:
		return nil
	case err == nil:
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"echo": wanted}})
		if err != nil {
			return err
		}
		return api.Patch(ctx, &present, client.RawPatch(types.MergePatchType, patch))
	case !apierrors.IsNotFound(err):
		return err
	}
	owner := metav1.NewControllerRef(source, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: []metav1.OwnerReference{*owner}},
		Data:       map[string]string{"echo": wanted},
	}
	// The cache may not know yet what this controller has made.
	return client.IgnoreAlreadyExists(api.Create(ctx, made))
}

// looked counts a source, and says so once all have been looked at.
func (e *echo) looked(request mcreconcile.Request) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if len(e.seen) == e.all {
		return
	}
	e.seen[request] = struct{}{}
	if len(e.seen) == e.all {
		fmt.Println("settled")
	}
}
