package events

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// hostileNames are what somebody somewhere will try to call a thing.
var hostileNames = []string{
	"", " ", "日报/α 💥.x", "日报", "é", "..", ".", "a.b", "*", ">", "a*", "a.>", "a b", " a", "a ", "a\tb", "a\n", "\x00", "a\x00b", "\xff",
	"-", "_", "-a", "a-", "_a", "a_", "--", "a--", "--a", "A", "aB", "a/b", `a\b`, "../etc/passwd", "a:b", "a~b", "a%41", "a\u200bb", "a'b", `a"b`, "$JS", "a;b", "a,b", "a=b", "{a}",
	strings.Repeat("a", 64), strings.Repeat("a", 300), strings.Repeat("日", 100),
}

var goodNames = []string{"a", "0", "9", "a1", "1a", "a-b", "a_b", "a-_-b", "a__b", "sync-orders", "2026-01-01", strings.Repeat("a", 63), "a" + strings.Repeat("-x", 31)}

func TestNames(t *testing.T) {
	for _, s := range goodNames {
		for what, check := range map[string]func(string) error{"name": CheckName, "task's name": CheckTaskName} {
			if err := check(s); err != nil {
				t.Errorf("%q is no %s: %v", s, what, err)
			}
		}
	}
	for _, s := range hostileNames {
		for what, check := range map[string]func(string) error{"name": CheckName, "task's name": CheckTaskName, "server's name": CheckServerName} {
			err := check(s)
			if !errors.Is(err, ErrName) {
				t.Errorf("%q is a %s: %v", s, what, err)
			} else if len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x00\n") || !utf8.ValidString(err.Error()) {
				t.Errorf("%.40q: the error repeats it as it is: %q", s, err)
			}
		}
		if s == "" {
			continue
		}
		for _, at := range []string{"a" + s, s + "a", "a" + s + "b"} { // hostile at every place
			if nameShape.MatchString(at) && !strings.Contains(at, "--") && len(at) <= MaxNameLen {
				continue
			}
			if err := CheckName(at); !errors.Is(err, ErrName) {
				t.Errorf("%q is a name: %v", at, err)
			}
		}
	}
}

var nameShape = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// TestCheckNameIsItsGrammar is a second opinion: the grammar as a regular
// expression.
func TestCheckNameIsItsGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[-_a-z0-9]{0,70}`), rapid.StringMatching(`[-_a-zA-B0-9.* ]{0,6}`), rapid.String()).Draw(t, "name")
		want := nameShape.MatchString(s) && len(s) <= 63 && !strings.Contains(s, "--")
		if err := CheckName(s); (err == nil) != want {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

func TestTaskNamesMayBeNodesOfAWorkflow(t *testing.T) {
	for _, s := range []string{"etl--load", "a--b", "a-b--c_d", strings.Repeat("a", 63) + "--" + strings.Repeat("b", 63)} {
		if err := CheckTaskName(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if CheckName(s) == nil {
			t.Errorf("%s is a name by itself", s)
		}
	}
	for _, s := range []string{"--", "a--", "--a", "a--b--c", "a---b", "a----b", "a--B", "A--b", "a--b c", strings.Repeat("a", 64) + "--b", "a--" + strings.Repeat("b", 64)} {
		if err := CheckTaskName(s); !errors.Is(err, ErrName) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestServerNamesHoldNothingThatReadsAsATime(t *testing.T) {
	for _, s := range []string{"s", "s1", "ax-0", "node-1-rack-a", "ip-10-0-0-1", "web-2026", "a-1234567890", "a_1234567890-b", "a-123456789-b", "a-1234567890-1", "a1234567890-b"} {
		if err := CheckServerName(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"1", "0a", "9-s", "1800000000000-s", "a-1800000000000-b", "a-b-1234567890-c-d", "a-12345678901234567890-b"} {
		if err := CheckServerName(s); !errors.Is(err, ErrName) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestInstanceIDs(t *testing.T) {
	for _, c := range []struct {
		task   TaskName
		due    int64
		server ServerName
		k      int64
		want   InstanceID
	}{
		{"sync-orders", 1800000000000, "s1", 0, "sync-orders-1800000000000-s1"},
		{"sync-orders", 1800000000000, "s1", 1, "sync-orders-1800000000000-s1-1"},
		{"sync-orders", 1800000000000, "s1", 12, "sync-orders-1800000000000-s1-12"},
		{"etl--load", 1, "s1", 0, "etl--load-1-s1"},
		// A server's name that ends as if it had a number always gets one.
		{"sync-orders", 1800000000000, "ax-1", 0, "sync-orders-1800000000000-ax-1-0"},
		{"sync-orders", 1800000000000, "ax-1", 1, "sync-orders-1800000000000-ax-1-1"},
		{"sync-orders", 1800000000000, "ax", 1, "sync-orders-1800000000000-ax-1"},
		{"sync-orders", 1800000000000, "ax_1", 0, "sync-orders-1800000000000-ax_1"},
		{"sync-orders", 1800000000000, "ax-1a", 0, "sync-orders-1800000000000-ax-1a"},
		{"a", math.MaxInt64, "b", math.MaxInt64, "a-9223372036854775807-b-9223372036854775807"},
	} {
		have := NewInstanceID(c.task, c.due, c.server, c.k)
		if have != c.want {
			t.Errorf("%s, %d, %s, %d: %s, want %s", c.task, c.due, c.server, c.k, have, c.want)
		}
		if k, ok := have.Matches(c.task, c.due); !ok || k != c.k {
			t.Errorf("%s is of %s and %d: %d, %v", have, c.task, c.due, k, ok)
		}
	}
	longest := NewInstanceID(TaskName(strings.Repeat("a", 63)+"--"+strings.Repeat("b", 63)), math.MaxInt64, ServerName(strings.Repeat("s", 63)), math.MaxInt64)
	if len(longest) > MaxText {
		t.Errorf("the longest id has %d bytes, an event takes %d", len(longest), MaxText)
	}
}

// someName draws names that are made to be confused with one another: of few
// letters and of numbers, some as long as a time.
func someName(check func(string) error) *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{"a", "b", "s", "1", "0", "12", "1800000000000", "9999999999", "999999999", "a1", "1a", "_", "--"})
	return rapid.Custom(func(t *rapid.T) string {
		for {
			s := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "parts"), rapid.SampledFrom([]string{"", "-", "-"}).Draw(t, "between"))
			if check(s) == nil {
				return s
			}
		}
	})
}

// TestAnInstanceIDHasOneReading: of all ways to split an id into a task, a due
// time since 12 January 1970, a server and a number, exactly one makes it.
func TestAnInstanceIDHasOneReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := TaskName(someName(CheckTaskName).Draw(t, "task"))
		server := ServerName(someName(CheckServerName).Draw(t, "server"))
		due := rapid.OneOf(rapid.Int64Range(1e9, math.MaxInt64), rapid.SampledFrom([]int64{1e9, 1800000000000, 9999999999})).Draw(t, "due")
		k := rapid.SampledFrom([]int64{0, 0, 1, 2, 12, 1800000000000}).Draw(t, "k")
		id := NewInstanceID(task, due, server, k)
		if have, ok := id.Matches(task, due); !ok || have != k {
			t.Fatalf("%s is of its own task and due time: %d, %v", id, have, ok)
		}
		if have := id.Task(); have != task {
			t.Fatalf("%s is of task %q, not %q", id, task, have)
		}
		readings := readings(id)
		if want := fmt.Sprint(task, due, server, k); len(readings) != 1 || readings[0] != want {
			t.Fatalf("%s reads as %q, it is %s", id, readings, want)
		}
	})
}

// readings finds every valid task, due time, server and number of which an id
// could be made, by trying all.
func readings(id InstanceID) (all []string) {
	s := string(id)
	for i := range s {
		for j := i + 1; j < len(s); j++ {
			if s[i] != '-' || s[j] != '-' || CheckTaskName(s[:i]) != nil {
				continue
			}
			due, err := strconv.ParseInt(s[i+1:j], 10, 64)
			if err != nil || due < 1e9 {
				continue
			}
			rest := s[j+1:]
			candidates := map[string]int64{rest: 0}
			if cut := strings.LastIndexByte(rest, '-'); cut > 0 {
				if k, err := strconv.ParseInt(rest[cut+1:], 10, 64); err == nil {
					candidates[rest[:cut]] = k
				}
			}
			for server, k := range candidates {
				if CheckServerName(server) == nil && NewInstanceID(TaskName(s[:i]), due, ServerName(server), k) == id {
					all = append(all, fmt.Sprint(TaskName(s[:i]), due, ServerName(server), k))
				}
			}
		}
	}
	return all
}

// TestServerNamesThatWouldMakeOneIDOfTwo is why CheckServerName refuses a long
// number in the middle.
func TestServerNamesThatWouldMakeOneIDOfTwo(t *testing.T) {
	a := NewInstanceID("a", 1800000000000, "b-1800000005000-c", 0)
	b := NewInstanceID("a-1800000000000-b", 1800000005000, "c", 0)
	if a != b {
		t.Fatalf("%s and %s differ: the rule is not needed any more", a, b)
	}
	if CheckServerName("b-1800000005000-c") == nil {
		t.Error("two instances may have the id " + string(a))
	}
}

func TestMatchesRefusesWhatIsOfAnotherTaskOrTime(t *testing.T) {
	for _, c := range []struct {
		id   InstanceID
		task TaskName
		due  int64
	}{
		{"", "a", 5}, {"a", "a", 5}, {"a-5", "a", 5}, {"a-5-", "a", 5}, {"a-5-s", "b", 5}, {"a-5-s", "a", 6}, {"a-5-s", "a", 55}, {"a-55-s", "a", 5},
		{"a-5-1", "a", 5}, {"a-5-1-s", "a", 5}, {"a-5-S", "a", 5}, {"a-5--s", "a", 5}, {"a-5-_s", "a", 5}, {"aa-5-s", "a", 5}, {"a-05-s", "a", 5},
		{"a-5-s-99999999999999999999", "a", 5},
	} {
		if k, ok := c.id.Matches(c.task, c.due); ok {
			t.Errorf("%q is of %s and %d, number %d", c.id, c.task, c.due, k)
		}
	}
}

// TestShardOfNeverChanges pins values: another shard for a name would cut it off
// from its log.
func TestTheTaskOfAnInstanceID(t *testing.T) {
	for id, want := range map[InstanceID]TaskName{
		"a-1800000000000-s1":                  "a",
		"a-1-1800000000000-s1":                "a-1",
		"a-1800000000000-s1-3":                "a",
		"a-1800000000000-s1-1800000000001-s1": "a-1800000000000-s1",
		"etl--load-1800000000000-ax-1-1":      "etl--load",
		"a-1800000000000-ax-1-1800000000000":  "a",
		"":                                    "", "a": "", "-": "", "-1800000000000-s": "", "a-1800000000000": "", "a-1800000000000-": "", "a-1800000000000-1": "", "a1800000000000-s": "", "1800000000000-s": "",
	} {
		if have := id.Task(); have != want {
			t.Errorf("%q is of %q, want %q", id, have, want)
		}
	}
}

func TestShardOfNeverChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		shards uint32
		want   Shard
	}{
		{"", 1, 0}, {"anything", 0, 0}, {"anything", 1, 0},
		{"a", 16, 12}, {"b", 16, 5}, {"sync-orders", 16, 12}, {"nightly", 16, 10}, {"etl--load", 16, 0}, {"etl", 16, 0},
		{"sync-orders", 1 << 31, 646167772}, {"nightly", 1 << 31, 204785930}, {"etl--load", 1 << 31, 2124156080},
		{"", 7, 2166136261 % 7}, {"a", 1 << 31, 0xe40c292c % (1 << 31)}, {"a", math.MaxUint32, 0xe40c292c},
		{"foobar", math.MaxUint32, 0xbf9cf968}, // from FNV's own test vectors
	} {
		if have := ShardOf(c.name, c.shards); have != c.want {
			t.Errorf("ShardOf(%q, %d) is %d, want %d", c.name, c.shards, have, c.want)
		}
	}
}

// shardOf is FNV-1a by its definition.
func shardOf(name string, shards uint32) Shard {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return Shard(h % shards)
}

func TestAWorkflowAndItsNodesAreOnOneShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workflow, node := someName(CheckName).Draw(t, "workflow"), someName(CheckName).Draw(t, "node")
		shards := rapid.Uint32Range(2, 1000).Draw(t, "shards")
		have := ShardOf(workflow+"--"+node, shards)
		h := fnv.New32a()
		_, _ = h.Write([]byte(workflow))
		if have != ShardOf(workflow, shards) || have != shardOf(workflow, shards) || uint32(have) != h.Sum32()%shards {
			t.Fatalf("%s--%s is on %d, %s on %d", workflow, node, have, workflow, ShardOf(workflow, shards))
		}
	})
}
