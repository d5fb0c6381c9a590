package cache

// Resting tells how many goroutines rest between two fills.
func (c *Cache) Resting() int { return int(c.runners.resting.Load()) }

// SpoolsHeld is how many bytes of large bodies are counted.
func (c *Cache) SpoolsHeld() int64 { return c.room.used.Load() }
