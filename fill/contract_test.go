package fill_test

import (
	"testing"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/fill/filltest"
)

func TestContract(t *testing.T) {
	filltest.Run(t, func(_ *testing.T, o fill.Options) filltest.Keeper { return fill.New(o) })
}

func TestModel(t *testing.T) {
	schedules := 400
	if testing.Short() {
		schedules = 40
	}
	filltest.RunModel(t, schedules, func(_ *testing.T, o fill.Options) []filltest.Keeper {
		return []filltest.Keeper{fill.New(o)}
	})
}
