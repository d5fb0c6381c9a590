package cache

// Resting tells how many goroutines rest between two fills.
func (c *Cache) Resting() int { return int(c.runners.resting.Load()) }
