package config

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// allowance is how much memory the process may take, and by whose word. A limit of 0 means that nothing tells.
type allowance struct {
	limit uint64
	whose string
}

// allowanceOf is the one that options give, else the process's.
func allowanceOf(o Options) allowance {
	if o.MemoryLimit > 0 {
		return allowance{o.MemoryLimit, "the memory of this process"}
	}
	return processAllowance()
}

// processAllowance is what binds this process. It is asked once: later the process may have set a limit of its own, made from the settings.
var processAllowance = sync.OnceValue(func() allowance {
	a := allowance{whose: "the limit of this process's cgroup"}
	var err error
	if a.limit, err = memlimit.FromCgroup(); err != nil {
		a.limit = 0
	}
	if machine, err := memlimit.FromSystem(); err == nil && (a.limit == 0 || machine < a.limit) {
		a = allowance{machine, "the memory of this machine"}
	}
	if own := debug.SetMemoryLimit(-1); own > 0 && own < math.MaxInt64 && (a.limit == 0 || uint64(own) < a.limit) {
		a = allowance{uint64(own), "GOMEMLIMIT"}
	}
	return a
})

// checkMemory warns of a memory tier that can never be filled: the process would be killed, or only collect garbage, before. It is no mistake, since
// the memory is taken as records come, and settings may be checked on a smaller machine than they are for.
func (s *source) checkMemory(cfg *Config, a allowance) {
	limit := Size(min(a.limit, math.MaxInt64))
	if limit == 0 || !s.given("memory.max") || !s.clean("memory.max") || cfg.Memory.Max <= limit/4*3 {
		return
	}
	mend := fmt.Sprintf("write at most %s, or remove the key for a quarter", (limit / 2).roundDown())
	if limit/2 < leastMemoryMax {
		mend = fmt.Sprintf("raise that to %s at least", 2*cfg.Memory.Max)
	}
	s.warn("memory.max", fmt.Sprintf("%s is more than three quarters of %s, %s; buffers, connections and the heap's garbage come on top", cfg.Memory.Max, a.whose, limit.roundDown()), mend)
}
