// Package testkit tests AX: it is imported by tests only.
//
//   - Sim is AX in memory with a clock that only the test moves: the real
//     deciders, fold, wheel and loop over a log in memory, and workers that do
//     what the test says (sim.go, sim_worker.go).
//   - Generator makes random histories for the fold, Reference folds them slowly
//     and plainly, and the tests hold the fold to both (generator.go,
//     reference.go).
//   - Check and ReadAudit read a finished log and find everything that AX promises
//     never happens (check.go).
//   - Processes runs the real binary, as many times as a test wants, and kills,
//     stops and starts it (process.go); Proxy is a network between them that can
//     be cut (proxy.go). The tests that use them are in crash.
package testkit
