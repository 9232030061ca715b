// Package events is AX's vocabulary: what stands in the log and on the wire,
// and the log itself. It imports no other room.
//
//   - Names, ids and positions (names.go, position.go, term.go).
//   - The address plan: every stream and subject (address.go).
//   - Event kinds, fields and bounds (kind.go, event.go), the frame that carries
//     them (frame.go, codec.go) and the hash chain over frames (chain.go).
//     docs/log-format.md draws the format.
//   - The state machine of an instance, as one table (state.go, table.go).
//   - Log: append-only, fenced, in memory or over JetStream (log*.go).
//   - Definitions of tasks and groups (definition.go).
//   - The protocol between workers, commands and a leader (protocol*.go).
//   - The type of a decider (decider.go).
//
// Invariants:
//
//	E1  A message is decoded in full or not at all; nothing that comes from
//	    outside makes decoding panic or take more memory than its bounds.
//	E2  Equal events have equal bytes, and what is written reads back equal.
//	E3  Every cell of the state table is filled for every kind that acts on
//	    instances.
//	E4  A definition in the log is complete: no default of a later version of AX
//	    can change what it means.
package events
