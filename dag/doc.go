// Package dag is the room of workflows: graphs, joins, conditions, dependency
// triggers and their decider. Nothing is in it yet; the kinds of its events and
// the states that its nodes need (CREATED, SKIPPED) are in package events.
package dag
