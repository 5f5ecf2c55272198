//go:build !wasip1

package mapper

import (
	"windlass.dev/windlass"
	"windlass.dev/windlass/internal/hook"
)

func register(m windlass.Mapper) { hook.Mapper = m }
