package windlass

import (
	"encoding/json"
	"fmt"
	"time"
)

// Config reads the reconciler's `config` into a struct. Fields that the config does not name stay as they are: set defaults
// before. Read it in Describe too, so that a wrong config fails the load.
func Config(into any) error {
	if err := json.Unmarshal([]byte(hostConfig()), into); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// Now is the host's wall time, in UTC and whole milliseconds.
func Now() time.Time {
	now, err := time.Parse(time.RFC3339, hostNow())
	if err != nil {
		panic(fmt.Sprintf("the host's time cannot be read: %v", err)) // a host that breaks the contract
	}
	return now
}
