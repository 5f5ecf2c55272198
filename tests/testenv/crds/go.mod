module testenv/crds

go 1.26.8

require (
	github.com/cert-manager/cert-manager v1.21.2
	sigs.k8s.io/cluster-api v1.14.2
)
