module testenv/referrers

go 1.26.8

require github.com/google/go-containerregistry v0.21.7
