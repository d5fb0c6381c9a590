package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// The stores that purges are measured with.
const (
	inMemory = "memory"
	withDisk = "disk"
)

// purgeJob is one measurement in a process of its own, so that no other one's heap is in it. Its figures are those of one round.
type purgeJob struct {
	name   string
	stores []string
	run    func(ctx context.Context, w *workshop) error
}

var bothStores = []string{inMemory, withDisk}

var purgeJobs = []purgeJob{
	{"single-10000", bothStores, func(ctx context.Context, w *workshop) error { return w.single(ctx, 10_000) }},
	{"single-1000000", bothStores, func(ctx context.Context, w *workshop) error { return w.single(ctx, million) }},
	{"stream", bothStores, func(ctx context.Context, w *workshop) error { return w.stream(ctx) }},
	{"soft", bothStores, func(ctx context.Context, w *workshop) error { return w.soft(ctx) }},
	{"index", bothStores, func(ctx context.Context, w *workshop) error { return w.index(ctx, true) }},
	{"index-none", bothStores, func(ctx context.Context, w *workshop) error { return w.index(ctx, false) }},
	{"resident", []string{inMemory}, func(ctx context.Context, w *workshop) error { return w.resident(ctx) }},
}

// purgeResults are the figures of all rounds by store and name.
type purgeResults struct {
	At     time.Time                       `json:"at"`
	Rounds int                             `json:"rounds"`
	Stores map[string]map[string][]float64 `json:"stores"`
}

const purgeFile = "purge.json"

// purgeOptions are the command line of purges.
type purgeOptions struct {
	jobs, stores []string
	rounds       int
	patience     time.Duration
	file, bin    string
	page         bool
}

func readPurgeOptions(here string, args []string) purgeOptions {
	var o purgeOptions
	flags := flag.NewFlagSet("purge", flag.ExitOnError)
	jobs := flags.String("job", "", "names of measurements, separated by commas; all if empty. The others' last figures are kept")
	stores := flags.String("store", "", "memory, disk or both if empty")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds; in each, every measurement is taken once")
	flags.DurationVar(&o.patience, "patience", 0, "how long to wait before each measurement for the machine to rest")
	flags.StringVar(&o.file, "results", filepath.Join(here, purgeFile), "where the last figures are kept")
	flags.StringVar(&o.bin, "bin", os.Getenv("SWRPROXY_BIN"), "proxy to measure resident memory of instead of building it")
	flags.BoolVar(&o.page, "page", true, "write docs/performance.md anew")
	_ = flags.Parse(args)
	o.jobs, o.stores = words(*jobs), words(*stores)
	return o
}

// purges measures what purges take, and what they do to hits, through the engine's own API: no socket is between.
func purges(ctx context.Context, here string, args []string) error {
	o := readPurgeOptions(here, args)
	dir, err := os.MkdirTemp("", "swrproxy-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.bin == "" {
		if o.bin, err = proc.Build(ctx, dir, proc.BuildOptions{}); err != nil {
			return err
		}
	}
	fresh, err := o.measure(ctx, dir)
	if err != nil {
		return err
	}
	all, err := readPurges(o.file)
	if err != nil {
		return err
	}
	if err := all.merge(fresh).write(o.file); err != nil {
		return err
	}
	fmt.Print(purgeTable(all))
	if !o.page {
		return nil
	}
	return rewrite(here)
}

func (o purgeOptions) measure(ctx context.Context, dir string) (*purgeResults, error) {
	res := &purgeResults{At: time.Now().UTC().Truncate(time.Second), Rounds: o.rounds, Stores: map[string]map[string][]float64{}}
	for round := range o.rounds {
		for _, job := range purgeJobs {
			for _, store := range job.stores {
				if len(o.jobs) > 0 && !slices.Contains(o.jobs, job.name) || len(o.stores) > 0 && !slices.Contains(o.stores, store) {
					continue
				}
				figures, err := o.once(ctx, dir, job.name, store)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", job.name, store, err)
				}
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %v\n", round+1, job.name, store, figures)
				res.add(store, figures)
			}
		}
	}
	return res, nil
}

const (
	// longestJob and mostMemory bound what a job takes of the machine: where each purge walks all records, a thousand a second take all of it.
	longestJob = 10 * time.Minute
	mostMemory = 5 << 30
)

// once runs a job in a process of its own.
func (o purgeOptions) once(ctx context.Context, dir, job, store string) (map[string]float64, error) {
	if err := awaitRest(ctx, time.Now().Add(o.patience)); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	before, err1 := machineCPU()
	own, err2 := childrenCPU()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, longestJob)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "purge-job", job, store, filepath.Join(dir, "store"), o.bin)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err3 := cmd.Output()
	took := time.Since(began)
	after, err4 := machineCPU()
	ownAfter, err5 := childrenCPU()
	if err := firstOf(err3, err1, err2, err4, err5, os.RemoveAll(filepath.Join(dir, "store"))); err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	if err := json.Unmarshal(out, &figures); err != nil {
		return nil, fmt.Errorf("%q: %w", out, err)
	}
	figures["others, "+job] = max(0, float64(after-before-(ownAfter-own))/float64(took))
	return figures, nil
}

// childrenCPU is what processes that this one started and that have ended used.
func childrenCPU() (time.Duration, error) {
	r := unix.Rusage{}
	err := unix.Getrusage(unix.RUSAGE_CHILDREN, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), err
}

// runPurgeJob is this program as the process of a job.
func runPurgeJob(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("purge-job: %d arguments, want job, store, directory and binary", len(args))
	}
	i := slices.IndexFunc(purgeJobs, func(j purgeJob) bool { return j.name == args[0] })
	if i < 0 {
		return fmt.Errorf("no job %s", args[0])
	}
	go endAbove(mostMemory)
	w := &workshop{store: args[1], dir: args[2], bin: args[3], figures: map[string]float64{}}
	if err := purgeJobs[i].run(ctx, w); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(w.figures)
}

// endAbove ends this process if it takes more memory than that.
func endAbove(most uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(100 * time.Millisecond) {
		metrics.Read(sample)
		if n := sample[0].Value.Uint64() - sample[1].Value.Uint64(); n > most {
			fmt.Fprintf(os.Stderr, "purge-job: %d MiB of memory are too much\n", n>>20)
			os.Exit(1)
		}
	}
}

func (r *purgeResults) add(store string, figures map[string]float64) {
	if r.Stores[store] == nil {
		r.Stores[store] = map[string][]float64{}
	}
	for name, v := range figures {
		r.Stores[store][name] = append(r.Stores[store][name], v)
	}
}

// merge replaces the figures that were measured anew.
func (r *purgeResults) merge(fresh *purgeResults) *purgeResults {
	r.At, r.Rounds = fresh.At, fresh.Rounds
	if r.Stores == nil {
		r.Stores = map[string]map[string][]float64{}
	}
	for store, figures := range fresh.Stores {
		for name, values := range figures {
			if r.Stores[store] == nil {
				r.Stores[store] = map[string][]float64{}
			}
			r.Stores[store][name] = values
		}
	}
	return r
}

func readPurges(file string) (*purgeResults, error) {
	r := &purgeResults{}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

func (r *purgeResults) write(file string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// purgesOnPage is the page's part about purges, empty if they were never measured.
func purgesOnPage(here string) (string, error) {
	r, err := readPurges(filepath.Join(here, purgeFile))
	if err != nil || len(r.Stores) == 0 {
		return "", err
	}
	return purgeTable(r), nil
}

// figure is the median over the rounds, false if it was not measured.
func (r *purgeResults) figure(store, name string) (float64, bool) {
	values := r.Stores[store][name]
	return median(values), len(values) > 0
}

// quotient is the median of the rounds' ratios.
func (r *purgeResults) quotient(store, name, over string) (float64, bool) {
	a, b := r.Stores[store][name], r.Stores[store][over]
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i]/b[i])
	}
	return median(ratios), len(ratios) > 0
}

// purgeRow is a line of the page's table.
type purgeRow struct {
	title, figure string
	// over makes the line a ratio, to this figure.
	over string
	unit func(float64) string
	// most are the targets by store, none for no target.
	most map[string]float64
}

func millis(ms float64) string { return short(time.Duration(ms * 1e6)) }

func times(x float64) string { return fmt.Sprintf("%.2f ×", x) }

func bytesEach(n float64) string { return fmt.Sprintf("%.0f bytes", n) }

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func both(most float64) map[string]float64 { return map[string]float64{inMemory: most, withDisk: most} }

var purgeRows = []purgeRow{
	{title: "purge of one URL among 10,000 records", figure: "url-10000", unit: millis},
	{title: "purge of one URL among 1,000,000 records", figure: "url-1000000", unit: millis, most: map[string]float64{inMemory: 1, withDisk: 10}},
	{title: "that beside 10,000 records", figure: "url-1000000", over: "url-10000", unit: times, most: both(1.5)},
	{title: "purge of one tag that reaches 100 of 10,000 records", figure: "tag-10000", unit: millis},
	{title: "purge of one tag that reaches 100 of 1,000,000 records", figure: "tag-1000000", unit: millis, most: map[string]float64{inMemory: 5, withDisk: 20}},
	{title: "1,000 purges of a URL a second: not answered", figure: "stream-unanswered", unit: percent, most: both(0)},
	{title: "p50 of the purges, of those answered", figure: "stream-purge-p50", unit: millis},
	{title: "p99 of the purges, of those answered", figure: "stream-purge-p99", unit: millis},
	{title: "p50 of 20,000 hits a second before", figure: "stream-before-p50", unit: millis},
	{title: "p50 of the hits meanwhile", figure: "stream-during-p50", unit: millis},
	{title: "p99 of 20,000 hits a second before", figure: "stream-before-p99", unit: millis},
	{title: "p99 of the hits meanwhile", figure: "stream-during-p99", unit: millis},
	{title: "that beside the p99 before", figure: "stream-during-p99", over: "stream-before-p99", unit: times, most: both(1.5)},
	{title: "soft purge of 100,000 records by their tag", figure: "soft-took", unit: millis},
	{title: "p99 of 10,000 reads a second before", figure: "soft-before-p99", unit: millis},
	{title: "p99 of the reads until the soft purge was answered", figure: "soft-until-p99", unit: millis},
	{title: "that beside the p99 before", figure: "soft-until-p99", over: "soft-before-p99", unit: times, most: both(2)},
	{title: "p99 of the reads in the 5 s from the soft purge on", figure: "soft-during-p99", unit: millis},
	{title: "that beside the p99 before", figure: "soft-during-p99", over: "soft-before-p99", unit: times},
	{title: "live heap of a record without tags, of 1,000,000", figure: "heap-none", unit: bytesEach},
	{title: "live heap of a record with a tag, of 1,000,000", figure: "heap-tag", unit: bytesEach},
	{title: "of it for the tag and the index", figure: "index", unit: bytesEach, most: both(64)},
	{title: "resident memory of a record of 1 KiB, of 100,000", figure: "resident", unit: bytesEach, most: map[string]float64{inMemory: 1857}},
}

func purgeTable(r *purgeResults) string {
	r.derive()
	var b strings.Builder
	b.WriteString("## Purges\n\n" + purgeNote + "\n| | in memory | target | | with disk | target | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, row := range purgeRows {
		fmt.Fprintf(&b, "| %s |", row.title)
		for _, store := range bothStores {
			figure, wanted, verdict := row.cells(r, store)
			fmt.Fprintf(&b, " %s | %s | %s |", figure, wanted, verdict)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds, %s. Other processes used up to %.0f %% of a core in them.\n\n", r.Rounds, r.At.Format("2 January 2006, 15:04 UTC"), 100*r.others())
	return b.String()
}

const purgeNote = `Measured through the engine's own API by ` + "`go run ./integration/bench purge`" + `, each in a process of its own. Records are stored by reading them once through the
cache, from an origin in the process; they have one tag each, which 100 of them share, and small bodies. With disk is memory in front of disk; a purge ends when it
is durable there. Purges of one URL or tag are taken one after the other while nothing else goes on. Hits beside purges are those of the servers' hit path, on a
thread and a core of their own, for other keys at fixed times: a hit counts from when it was due. The purges, and all else that the process does, have the other
core. Reads beside the soft purge take the ordinary path, at random among what is purged; the origin takes 300 ms for each refresh. The wait for a purge ends after 5 s.
What a tag takes is in the index and, some twenty bytes, in the record. Resident memory is all that the proxy has at rest,
with ` + "`memory.max: 512MiB`" + `.
`

// derive computes what two jobs together tell.
func (r *purgeResults) derive() {
	for _, figures := range r.Stores {
		figures["index"] = nil
		for i := range min(len(figures["heap-tag"]), len(figures["heap-none"])) {
			figures["index"] = append(figures["index"], figures["heap-tag"][i]-figures["heap-none"][i])
		}
	}
}

// others is the most that other processes used in any round.
func (r *purgeResults) others() (most float64) {
	for _, figures := range r.Stores {
		for name, values := range figures {
			if strings.HasPrefix(name, "others") {
				most = max(most, slices.Max(values))
			}
		}
	}
	return most
}

func (row purgeRow) cells(r *purgeResults, store string) (figure, wanted, verdict string) {
	v, ok := r.figure(store, row.figure)
	if row.over != "" {
		v, ok = r.quotient(store, row.figure, row.over)
	}
	most, target := row.most[store]
	switch {
	case !target:
		wanted = "—"
	case most == 0:
		wanted = "none"
	default:
		wanted = "≤ " + row.unit(most)
	}
	switch {
	case !ok:
		return "—", wanted, ""
	case !target:
		return row.unit(v), wanted, ""
	case v > most:
		return row.unit(v), wanted, "**missed**"
	default:
		return row.unit(v), wanted, "reached"
	}
}
