package harness

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Worker()
	goleak.VerifyTestMain(m)
}

func TestRightKeepers(t *testing.T) {
	loads := []Load{{2, 1, Yield}, {4, 3, Timer}, {8, 1, Spin}, {1, 4, Spin}}
	for _, k := range Keepers {
		for _, l := range loads {
			row, err := Contend(k, l)
			if err != nil {
				t.Fatal(err)
			}
			if bad := row.Broken(); bad != "" {
				t.Errorf("%s, %d×%d, %s: %s", k, l.Workers, l.Callers, l.Section, bad)
			}
		}
	}
}

func TestRightSweeps(t *testing.T) {
	for _, k := range Keepers {
		row, err := Sweep(k)
		if err != nil {
			t.Fatal(err)
		}
		if bad := row.Broken(); bad != "" {
			t.Errorf("%s: %s", k, bad)
		}
	}
}

// A harness that finds nothing in a wrong keeper proves nothing.
func TestWrongKeepersAreFoundOut(t *testing.T) {
	row, err := Contend(WakeIsGrant, Load{8, 1, Timer})
	if err != nil {
		t.Fatal(err)
	}
	if row.Most < 2 || row.Lost == 0 {
		t.Errorf("%s: %d at once, %d updates lost; the harness should see overlaps", row.Keeper, row.Most, row.Lost)
	}
	row, err = Contend(ReleaseByKey, Load{8, 1, Timer})
	if err != nil {
		t.Fatal(err)
	}
	if row.Most < 2 || row.Lost == 0 || row.Strays == 0 {
		t.Errorf("%s: %d at once, %d updates lost, %d strays; the harness should see all three",
			row.Keeper, row.Most, row.Lost, row.Strays)
	}
	sweep, err := Sweep(LooseTry)
	if err != nil {
		t.Fatal(err)
	}
	if sweep.Twice == 0 || sweep.Broken() == "" {
		t.Errorf("%s: %d granted twice; the harness should see duplicates", sweep.Keeper, sweep.Twice)
	}
}
