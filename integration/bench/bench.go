package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// bench is the servers, running, and what was measured.
type bench struct {
	o       options
	dirs    []string // in memory, on disk
	origin  *origin
	near    *origin // on the servers' core, for requests without a proxy; nil if no scenario makes any
	crowd   *crowd  // nil if no scenario needs it
	servers map[string]*server
	client  *http.Client
	script  string // the Lua file of misses
	runs    int
	page    *page
}

// openBench starts the origin and the servers.
func openBench(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{o: o, servers: map[string]*server{}, client: &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DisableCompression: true, ForceAttemptHTTP2: true,
			// nginx keeps a connection busy until the background refresh that began on it is over, which may be never.
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // its own certificate, made a moment ago
		},
	}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := pinProcess(o.loadCore); err != nil {
		return b, err
	}
	p, err := b.place(ctx)
	if err != nil {
		return b, err
	}
	if err := b.startServers(ctx, p); err != nil {
		return b, err
	}
	b.page, err = openPage(o)
	return b, err
}

// pinProcess keeps this process, which does nothing that counts, off the server's core: all of its threads, and those that they start.
func pinProcess(core int) error {
	set := unix.CPUSet{}
	set.Set(core)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = unix.SchedSetaffinity(id, &set)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin thread %s to core %d: %w", t.Name(), core, err)
		}
	}
	return nil
}

// place makes the directories, builds the proxy and starts the origin.
func (b *bench) place(ctx context.Context) (place, error) {
	p := place{core: b.o.serverCore, bin: b.o.bin}
	ramParent := "/dev/shm"
	if _, err := os.Stat(ramParent); err != nil {
		ramParent = ""
	}
	var err1, err2 error
	p.ram, err1 = os.MkdirTemp(ramParent, "swrproxy-bench-")
	p.disk, err2 = os.MkdirTemp("", "swrproxy-bench-")
	b.dirs = append(b.dirs, p.ram, p.disk)
	if err := firstOf(err1, err2); err != nil {
		return p, err
	}
	// nginx and varnishd drop root for accounts of their own, which have to get in.
	if err := firstOf(os.Chmod(p.ram, 0o755), os.Chmod(p.disk, 0o755)); err != nil {
		return p, err
	}
	b.script = filepath.Join(p.ram, "miss.lua")
	if err := os.WriteFile(b.script, []byte(missScript), 0o644); err != nil {
		return p, err
	}
	var err error
	if p.cert, p.key, err = writeCertificate(p.ram); err != nil {
		return p, err
	}
	if p.bin == "" {
		// In a folder of its own: the servers' folders are called as the servers are.
		if p.bin, err = proc.Build(ctx, filepath.Join(p.disk, "bin"), proc.BuildOptions{}); err != nil {
			return p, err
		}
	}
	b.origin, err = openOrigin(ctx, p.ram, b.o.loadCore)
	p.origin = b.origin
	return p, err
}

// startServers starts what the scenarios need.
func (b *bench) startServers(ctx context.Context, p place) error {
	starts := map[string]func() (*server, error){
		nginx:     func() (*server, error) { return startNginx(ctx, p) },
		varnish:   func() (*server, error) { return startVarnish(ctx, p) },
		ours:      func() (*server, error) { return startOurs(ctx, p, ours, oursInMemory) },
		oursDisk:  func() (*server, error) { return startOurs(ctx, p, oursDisk, oursConf) },
		fullTier:  func() (*server, error) { return startOurs(ctx, p, fullTier, oursInMemory) },
		emptyTier: func() (*server, error) { return startOurs(ctx, p, emptyTier, oursInMemory) },
		crowded:   func() (*server, error) { return b.startCrowded(ctx, p) },
	}
	for _, name := range b.needed() {
		if name == direct {
			var err error
			if b.near, err = openOrigin(ctx, filepath.Join(p.ram, "near"), p.core); err != nil {
				return err
			}
			continue
		}
		s, err := starts[name]()
		if s != nil && s.proc != nil {
			b.servers[name] = s
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needed are the servers of the chosen scenarios.
func (b *bench) needed() []string {
	var names []string
	for _, s := range chosen(b.o.scenarios) {
		for _, name := range s.subjects {
			switch name {
			case fresh:
				name = ours
			case calm, purged:
				name = crowded
			}
			if !slices.Contains(names, name) && !slices.Contains(b.o.without, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (b *bench) close() {
	for _, s := range b.servers {
		s.proc.stop()
	}
	b.crowd.close()
	for _, o := range []*origin{b.origin, b.near} {
		if o != nil {
			o.close()
		}
	}
	for _, dir := range b.dirs {
		_ = os.RemoveAll(dir)
	}
}

// subject is one server in one scenario.
type subject struct {
	name   string
	server *server
	url    string
}

// subjects are the servers of a scenario with what is asked of each.
func (b *bench) subjects(s scenario) []subject {
	var out []subject
	for _, name := range s.subjects {
		srv, path := b.servers[name], s.path
		switch {
		case name == fresh:
			srv, path = b.servers[ours], "/1k"
		case name == calm, name == purged:
			srv = b.servers[crowded]
		case name == direct:
			srv = &server{name: direct, proc: b.near.fast, plain: b.near.addr}
		case s.kind == stale:
			path += name
		}
		if srv == nil {
			continue // left out
		}
		base := "http://" + srv.plain
		if s.streams > 0 {
			base = "https://" + srv.secure
		}
		out = append(out, subject{name: name, server: srv, url: base + path})
	}
	return out
}

// measure runs all rounds of a scenario.
func (b *bench) measure(ctx context.Context, s scenario) (result, error) {
	res := result{Scenario: s.name, Rounds: b.o.rounds, Seconds: b.lengthOf(s).Truncate(time.Second).Seconds(), At: time.Now().UTC().Truncate(time.Second)}
	subjects := b.subjects(s)
	if s.kind == stores {
		if err := b.awaitInodes(ctx, b.dirs[1]); err != nil {
			return res, err
		}
	}
	if err := b.prime(ctx, s, subjects); err != nil {
		return res, err
	}
	for _, sub := range subjects {
		res.Subjects = append(res.Subjects, series{Name: sub.name})
	}
	for round := range b.o.rounds {
		b.say("%s: round %d of %d", s.name, round+1, b.o.rounds)
		for i, sub := range subjects {
			sm, err := b.undisturbed(ctx, s, sub)
			if err != nil {
				return res, fmt.Errorf("%s: %w", sub.name, err)
			}
			res.Subjects[i].Samples = append(res.Subjects[i].Samples, sm)
		}
	}
	return res, b.profile(ctx, s, subjects)
}

// lengthOf is how long one run of a scenario is.
func (b *bench) lengthOf(s scenario) time.Duration { return cmp.Or(s.lasts, b.o.duration) }

// prime fills the caches, and looks whether answers are what the scenario is about.
func (b *bench) prime(ctx context.Context, s scenario, subjects []subject) error {
	for _, sub := range subjects {
		if s.kind.missing() {
			continue
		}
		if s.kind == fullMemory {
			if err := b.primeTier(ctx, sub); err != nil {
				return fmt.Errorf("%s: %w", sub.name, err)
			}
			continue
		}
		if _, err := b.get(ctx, sub.url, nil); err != nil {
			return fmt.Errorf("%s: %w", sub.name, err)
		}
	}
	if s.kind == stale {
		time.Sleep(2 * time.Second) // the answers have a second of freshness
	}
	for _, sub := range subjects {
		want := s.status
		url := sub.url
		if s.kind.missing() {
			url += "check"
		}
		status, err := b.get(ctx, url, s.fields)
		if err != nil {
			return fmt.Errorf("%s: %w", sub.name, err)
		}
		if status != want {
			return fmt.Errorf("%s: answered %d to the first request, not %d", sub.name, status, want)
		}
	}
	return nil
}

func (b *bench) get(ctx context.Context, url string, fields []string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Set(name, value)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// disturbance is how much of a core others may use before a run counts as disturbed: what a resting machine needs.
const disturbance = 0.15

// undisturbed is one run with next to nothing else on the machine, as far as patience goes; then it is the least disturbed one.
func (b *bench) undisturbed(ctx context.Context, s scenario, sub subject) (best sample, err error) {
	until := time.Now().Add(b.o.patience)
	for first := true; ; first = false {
		if err := awaitRest(ctx, until); err != nil {
			return best, err
		}
		sm, err := b.once(ctx, s, sub, b.lengthOf(s))
		if err != nil {
			return sm, err
		}
		if first || sm.Others < best.Others {
			best = sm
		}
		if best.Others <= disturbance || time.Now().After(until) {
			return best, nil
		}
	}
}

// awaitRest waits until the machine rests, no longer than until.
func awaitRest(ctx context.Context, until time.Time) error {
	const look = 300 * time.Millisecond
	for time.Now().Before(until) {
		before, err := machineCPU()
		if err != nil {
			return err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := machineCPU()
		if err != nil || float64(after-before) <= disturbance*float64(look) {
			return err
		}
	}
	return nil
}

// once is one run of one server.
func (b *bench) once(ctx context.Context, s scenario, sub subject, d time.Duration) (sample, error) {
	if s.kind == crowdPurge {
		if err := b.gather(ctx, sub.server); err != nil {
			return sample{}, err
		}
	}
	onDisk, err0 := b.onDisk(ctx, s, sub)
	before, err1 := b.origin.count(ctx)
	cpuBefore, err2 := b.usage(sub)
	if err := firstOf(err0, err1, err2); err != nil {
		return sample{}, err
	}
	began := time.Now()
	l, err := b.generate(ctx, s, sub, d)
	took := time.Since(began)
	cpuAfter, err3 := b.usage(sub)
	after, err4 := b.origin.count(ctx)
	if err := firstOf(err, err3, err4); err != nil {
		return sample{}, err
	}
	if l.bad > 0 {
		return sample{}, fmt.Errorf("%d of %d answers were errors", l.bad, l.requests)
	}
	used := cpuAfter.server - cpuBefore.server
	others := (cpuAfter.machine - cpuBefore.machine) - used - (cpuAfter.load - cpuBefore.load)
	sm := sample{
		Rate: l.rate, P50: l.p50, P99: l.p99, P999: l.p999,
		CPU:  used / time.Duration(max(l.requests, 1)),
		Busy: float64(used) / float64(took), Generator: l.busy, Others: max(float64(others)/float64(took), 0),
	}
	if sub.name == direct {
		return sm, nil // every request reaches an origin, another one
	}
	if err := kept(s.kind, l.requests, after-before-1); err != nil {
		return sm, err
	}
	if s.kind != stores || sub.server.admin == "" {
		return sm, nil
	}
	stored, used, err := b.countStored(ctx, sub, onDisk, cpuBefore)
	// What was fetched and not waited for, when the generator went, is stored too.
	sm.Stored, sm.CPU = stored/float64(max(after-before-1, 1)), used/time.Duration(max(l.requests, 1))
	return sm, err
}

// onDisk is how many records the proxy has on disk before a run that is to add some.
func (b *bench) onDisk(ctx context.Context, s scenario, sub subject) (float64, error) {
	if s.kind != stores || sub.server.admin == "" {
		return 0, nil
	}
	return b.settled(ctx, sub.server)
}

// countStored waits for what the proxy has still to write to disk, and tells how many records a run added and the CPU time it took with that.
func (b *bench) countStored(ctx context.Context, sub subject, before float64, began usage) (float64, time.Duration, error) {
	after, err1 := b.settled(ctx, sub.server)
	u, err2 := b.usage(sub)
	return after - before, u.server - began.server, firstOf(err1, err2)
}

// usage is CPU time used so far.
type usage struct{ server, load, machine time.Duration }

// usage tells how much the server, the generator's side and the whole machine have used; two cores use up to 2 s in a second.
func (b *bench) usage(sub subject) (u usage, err error) {
	var err1, err2, err3 error
	u.server, err1 = cpu(sub.server.proc.cmd.Process.Pid)
	u.load, err2 = cpu(b.origin.fast.cmd.Process.Pid)
	crowd, err5 := b.crowd.cpu()
	u.load += crowd
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		r := unix.Rusage{}
		err3 = firstOf(err3, unix.Getrusage(who, &r))
		u.load += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var err4 error
	u.machine, err4 = machineCPU()
	return u, firstOf(err1, err2, err3, err4, err5)
}

// kept checks by the number of requests that the origin saw that the traffic was what it was meant to be.
func kept(k kind, requests, fetched int64) error {
	switch {
	case k.missing() && fetched < requests*99/100:
		return fmt.Errorf("only %d of %d misses reached the origin", fetched, requests)
	case k == fullMemory && (fetched < requests*4/100 || fetched > requests*8/100):
		return fmt.Errorf("%d of %d requests reached the origin, not one in %d", fetched, requests, oneMissIn)
	case (k == hits || k == stale) && fetched > max(requests/1000, 2):
		return fmt.Errorf("%d of %d hits reached the origin", fetched, requests)
	}
	return nil
}

// generate makes the traffic of one run.
func (b *bench) generate(ctx context.Context, s scenario, sub subject, d time.Duration) (load, error) {
	switch s.kind {
	case firstByte:
		return b.firstBytes(ctx, s, sub, d)
	case fullMemory:
		return b.paced(ctx, s, sub, d)
	case crowdPurge:
		return b.askCrowd(ctx, sub)
	}
	if s.streams > 0 {
		return h2load(ctx, b.o.loadCore, s.conns, s.streams, d, sub.url)
	}
	var args []string
	for _, f := range s.fields {
		args = append(args, "-H", f)
	}
	if !s.kind.missing() {
		return wrk(ctx, b.o.loadCore, s.conns, d, append(args, sub.url)...)
	}
	b.runs++
	prefix := fmt.Sprintf("%s%d/", s.path, b.runs)
	return wrk(ctx, b.o.loadCore, s.conns, d, append(args, "-s", b.script, sub.url, "--", prefix)...)
}

// profile takes a CPU profile of the proxy under this scenario's load, in a run that does not count.
func (b *bench) profile(ctx context.Context, s scenario, subjects []subject) error {
	if b.o.profile == "" {
		return nil
	}
	sub := subjects[len(subjects)-1]
	if sub.server.admin == "" {
		return nil
	}
	fetched := make(chan error, 1)
	go func() { fetched <- b.fetchProfile(ctx, s.name, sub.server) }()
	_, err := b.once(ctx, s, sub, 4*time.Second)
	return errors.Join(err, <-fetched)
}

func (b *bench) fetchProfile(ctx context.Context, name string, s *server) error {
	profile, err := b.adminGet(ctx, s, "/debug/pprof/profile?seconds=3")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.o.profile, name+".pprof"), profile, 0o644)
}

// say tells whoever waits what goes on.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// keep puts a result on the page.
func (b *bench) keep(res result) error { return b.page.put(res) }
