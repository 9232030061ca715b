package events

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Address is the address plan: every stream, bucket and subject of AX, on one
// screen.
//
// Tokens: <ns> namespace, <shard> decimal, <group>, <actor>, <verb>, <name>.
// All tokens pass CheckName, so none can hold '.', '*', '>' or space. There is
// no subject per task or instance in a stored stream: each distinct subject
// costs a NATS server memory for ever.
//
//	what                          kind          written by
//	AX_<ns>_<shard>               stream, file  the shard's log:
//	  ax.<ns>.<shard>.log                       its leader: frames
//	  ax.<ns>.<shard>.led                       candidates: leaderships, the fence
//	AX_<ns>_inbox                 stream, file  anyone with that actor's credential:
//	  ax.<ns>.in.<actor>.<verb>.<name>
//	AX_<ns>_work                  stream, mem   the leader: offers
//	  ax.<ns>.work.<shard>.<group>
//	AX_<ns>_lease                 KV, memory    servers: a key per shard
//	AX_<ns>_snapshots             objects       the leader: snapshots of views
//	ax.<ns>.rpc.<shard>.claim.<group>  request  workers
//	ax.<ns>.rpc.<shard>.report.<group> request  workers
//	ax.<ns>.rpc.<shard>.beat           request  workers
//	ax.<ns>.rpc.<shard>.cmd            request  commands
//	ax.<ns>.feed.<shard>.led           core     the leader: it leads now
//	ax.<ns>.stop.<worker>              core     the leader: look at your beat's answer now
type Address struct{ ns Namespace }

// NewAddress checks the namespace and gives its addresses.
func NewAddress(ns Namespace) (Address, error) {
	if err := CheckName(string(ns)); err != nil {
		return Address{}, fmt.Errorf("namespace: %w", err)
	}
	return Address{ns}, nil
}

// Namespace gives the namespace of the addresses.
func (a Address) Namespace() Namespace { return a.ns }

func shardText(s Shard) string { return strconv.FormatUint(uint64(s), 10) }

// LogStream names the stream of a shard's log.
func (a Address) LogStream(s Shard) string { return "AX_" + string(a.ns) + "_" + shardText(s) }

// Log is the subject of a shard's frames.
func (a Address) Log(s Shard) string { return "ax." + string(a.ns) + "." + shardText(s) + ".log" }

// Led is the subject of a shard's leaderships. It is literal: a wildcard is no
// fence on a replicated stream.
func (a Address) Led(s Shard) string { return "ax." + string(a.ns) + "." + shardText(s) + ".led" }

// InboxStream names the stream of commands.
func (a Address) InboxStream() string { return "AX_" + string(a.ns) + "_inbox" }

// InboxAll covers the inbox.
func (a Address) InboxAll() string { return "ax." + string(a.ns) + ".in.>" }

// Inbox is the subject on which an actor asks for verb on name.
func (a Address) Inbox(actor, verb, name string) string {
	return "ax." + string(a.ns) + ".in." + actor + "." + verb + "." + name
}

// InboxParts splits a subject that Inbox gave.
func (a Address) InboxParts(subject string) (actor, verb, name string, err error) {
	rest, ok := strings.CutPrefix(subject, "ax."+string(a.ns)+".in.")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 || slices.Contains(parts, "") {
		return "", "", "", fmt.Errorf("%w: subject %.200q is not ax.%s.in.<actor>.<verb>.<name>", ErrAddress, subject, a.ns)
	}
	return parts[0], parts[1], parts[2], nil
}

// WorkStream names the stream of offers.
func (a Address) WorkStream() string { return "AX_" + string(a.ns) + "_work" }

// WorkAll covers all offers.
func (a Address) WorkAll() string { return "ax." + string(a.ns) + ".work.>" }

// Work is the subject of a shard's offers for a group.
func (a Address) Work(s Shard, g Group) string {
	return "ax." + string(a.ns) + ".work." + shardText(s) + "." + string(g)
}

// WorkOfGroup covers a group's offers of all shards.
func (a Address) WorkOfGroup(g Group) string { return "ax." + string(a.ns) + ".work.*." + string(g) }

// LeaseBucket names the bucket of leases.
func (a Address) LeaseBucket() string { return "AX_" + string(a.ns) + "_lease" }

// LeaseKey is a shard's key in the bucket.
func (a Address) LeaseKey(s Shard) string { return "shard-" + shardText(s) }

// SnapshotBucket names the object store of view snapshots.
func (a Address) SnapshotBucket() string { return "AX_" + string(a.ns) + "_snapshots" }

// Verbs of requests to a leader.
const (
	RPCClaim   = "claim"
	RPCReport  = "report"
	RPCBeat    = "beat"
	RPCCommand = "cmd"
)

// RPC is the subject of a request to a shard's leader. Claims and reports name
// their group, so that a worker's credential can be held to it.
func (a Address) RPC(s Shard, verb string, g Group) string {
	subject := "ax." + string(a.ns) + ".rpc." + shardText(s) + "." + verb
	if g != "" {
		subject += "." + string(g)
	}
	return subject
}

// RPCAll covers all requests to a shard's leader.
func (a Address) RPCAll(s Shard) string { return "ax." + string(a.ns) + ".rpc." + shardText(s) + ".>" }

// RPCParts splits the subject of a request.
func (a Address) RPCParts(subject string) (verb string, g Group, err error) {
	rest, ok := strings.CutPrefix(subject, "ax."+string(a.ns)+".rpc.")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "", "", fmt.Errorf("%w: subject %.200q is no request to a leader", ErrAddress, subject)
	}
	if len(parts) == 3 {
		g = Group(parts[2])
	}
	return parts[1], g, nil
}

// FeedLed tells everybody that a leadership began.
func (a Address) FeedLed(s Shard) string {
	return "ax." + string(a.ns) + ".feed." + shardText(s) + ".led"
}

// FeedLedAll covers the leaderships of all shards.
func (a Address) FeedLedAll() string { return "ax." + string(a.ns) + ".feed.*.led" }

// Stop tells a worker that an attempt of its is to end; its next beat's answer
// says which. Losing the message costs only the wait for that beat.
func (a Address) Stop(w WorkerName) string { return "ax." + string(a.ns) + ".stop." + string(w) }

// ErrAddress is wrapped where a subject is none of AX's.
var ErrAddress = errors.New("not an AX subject")
