package events

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTheAddressPlan pins every address: programs in other languages have them
// too.
func TestTheAddressPlan(t *testing.T) {
	a, err := NewAddress("prod")
	if err != nil || a.Namespace() != "prod" {
		t.Fatal(err)
	}
	for have, want := range map[string]string{
		a.LogStream(0):                      "AX_prod_0",
		a.LogStream(17):                     "AX_prod_17",
		a.Log(0):                            "ax.prod.0.log",
		a.Led(0):                            "ax.prod.0.led",
		a.InboxStream():                     "AX_prod_inbox",
		a.InboxAll():                        "ax.prod.in.>",
		a.Inbox("alice", "trigger", "sync"): "ax.prod.in.alice.trigger.sync",
		a.WorkStream():                      "AX_prod_work",
		a.WorkAll():                         "ax.prod.work.>",
		a.Work(0, "default"):                "ax.prod.work.0.default",
		a.WorkOfGroup("default"):            "ax.prod.work.*.default",
		a.LeaseBucket():                     "AX_prod_lease",
		a.LeaseKey(3):                       "shard-3",
		a.SnapshotBucket():                  "AX_prod_snapshots",
		a.RPC(0, RPCClaim, "default"):       "ax.prod.rpc.0.claim.default",
		a.RPC(0, RPCReport, "default"):      "ax.prod.rpc.0.report.default",
		a.RPC(0, RPCBeat, ""):               "ax.prod.rpc.0.beat",
		a.RPC(4294967295, RPCCommand, ""):   "ax.prod.rpc.4294967295.cmd",
		a.RPCAll(0):                         "ax.prod.rpc.0.>",
		a.FeedLed(0):                        "ax.prod.feed.0.led",
		a.FeedLedAll():                      "ax.prod.feed.*.led",
		a.Stop("w1"):                        "ax.prod.stop.w1",
	} {
		if have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}

func TestANamespaceIsAName(t *testing.T) {
	for _, s := range hostileNames {
		if a, err := NewAddress(Namespace(s)); !errors.Is(err, ErrName) || a != (Address{}) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := NewAddress("a--b"); !errors.Is(err, ErrName) {
		t.Errorf("a--b: %v", err)
	}
}

func TestRequestsSayWhatAndOfWhichGroup(t *testing.T) {
	a, _ := NewAddress("prod")
	for _, c := range []struct {
		shard Shard
		verb  string
		group Group
	}{{0, RPCClaim, "default"}, {7, RPCReport, "g-1"}, {0, RPCBeat, ""}, {12, RPCCommand, ""}, {0, "unheard-of", ""}} {
		verb, group, err := a.RPCParts(a.RPC(c.shard, c.verb, c.group))
		if err != nil || verb != c.verb || group != c.group {
			t.Errorf("%v: %s, %s, %v", c, verb, group, err)
		}
	}
	for _, s := range []string{
		"", "ax.prod.rpc", "ax.prod.rpc.", "ax.prod.rpc.0", "ax.prod.rpc.0.claim.default.x", "ax.other.rpc.0.claim.default", "ax.prod.in.0.claim.default",
		"ax.prod.rpcx.0.claim", "AX.prod.rpc.0.claim", "xax.prod.rpc.0.claim.g", "日报/α 💥.x", strings.Repeat("x", 5000),
	} {
		verb, group, err := a.RPCParts(s)
		if !errors.Is(err, ErrAddress) || verb != "" || group != "" {
			t.Errorf("%.40q: %s, %s, %v", s, verb, group, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.40q: the error has %d bytes", s, len(err.Error()))
		}
	}
}

func TestInboxSubjectsSayWhoWhatAndOnWhat(t *testing.T) {
	a, _ := NewAddress("prod")
	rapid.Check(t, func(t *rapid.T) {
		var in []string
		for _, what := range []string{"actor", "verb", "name"} {
			in = append(in, someName(CheckTaskName).Draw(t, what))
		}
		actor, verb, name, err := a.InboxParts(a.Inbox(in[0], in[1], in[2]))
		if have := []string{actor, verb, name}; err != nil || !slices.Equal(have, in) {
			t.Fatalf("%v, %v", have, err)
		}
	})
	for _, s := range []string{
		"", "ax.prod.in", "ax.prod.in.", "ax.prod.in.alice", "ax.prod.in.alice.trigger", "ax.prod.in.alice.trigger.sync.x", "ax.prod.in.alice.trigger.a.b",
		"ax.other.in.alice.trigger.sync", "ax.prod.rpc.alice.trigger.sync", "ax.prod.inx.alice.trigger.sync", "日报/α 💥.x", strings.Repeat("x.", 5000),
	} {
		actor, verb, name, err := a.InboxParts(s)
		if !errors.Is(err, ErrAddress) || actor+verb+name != "" {
			t.Errorf("%.40q: %s, %s, %s, %v", s, actor, verb, name, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.40q: the error has %d bytes", s, len(err.Error()))
		}
	}
}

func FuzzSubjects(f *testing.F) {
	a, _ := NewAddress("prod")
	f.Add(a.RPC(0, RPCClaim, "default"))
	f.Add(a.Inbox("alice", "trigger", "sync"))
	f.Add("ax.prod.in...")
	f.Fuzz(func(t *testing.T, s string) {
		if verb, group, err := a.RPCParts(s); err == nil && !strings.HasPrefix(s, "ax.prod.rpc.") {
			t.Fatalf("%q is a request: %s, %s", s, verb, group)
		}
		if actor, verb, name, err := a.InboxParts(s); err == nil && a.Inbox(actor, verb, name) != s {
			t.Fatalf("%q is %s, %s, %s", s, actor, verb, name)
		}
	})
}
