package app

import (
	"fmt"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/swrproxy/swrproxy/internal/config"
)

// headroom is what the process needs beside its records: buffers of transfers under way, connections, the runtime itself.
const headroom = 96 << 20

// SetMemoryLimit sets Go's soft memory limit so that the process stays within one and a half times memory.max plus 128 MiB, and within nine
// tenths of its cgroup. Without it the collector would let the heap grow to twice the records. GOMEMLIMIT, if set, wins. It
// returns the limit in bytes.
func SetMemoryLimit(cfg *config.Config) (int64, error) {
	budget := uint64(cfg.Memory.Max)/2*3 + headroom
	provider := func() (uint64, error) {
		cgroup, err := memlimit.ApplyRatio(memlimit.FromCgroup, cgroupShare)()
		if err != nil {
			return budget, nil // no cgroup, or one without limit
		}
		return min(budget, cgroup), nil
	}
	limit, err := memlimit.Set(memlimit.WithRatio(1), memlimit.WithProvider(provider))
	if err != nil {
		return limit, fmt.Errorf("set the memory limit: %w", err)
	}
	return limit, nil
}

// cgroupShare leaves room for what the Go runtime does not count: the binary's pages, kernel memory of sockets.
const cgroupShare = 0.9
