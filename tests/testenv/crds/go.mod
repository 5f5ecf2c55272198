module testenv/crds

go 1.26.8

require sigs.k8s.io/cluster-api v1.14.2
