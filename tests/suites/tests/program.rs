//! The `windlass` binary, driven as a user drives it.

#[path = "program/accounting.rs"]
mod accounting;
#[path = "program/bad.rs"]
mod bad;
#[path = "program/building.rs"]
mod building;
#[path = "program/busy.rs"]
mod busy;
#[path = "program/callers.rs"]
mod callers;
#[path = "program/callers_in_a_cluster.rs"]
mod callers_in_a_cluster;
#[path = "program/cases.rs"]
mod cases;
#[path = "program/check.rs"]
mod check;
#[path = "program/console.rs"]
mod console;
#[path = "program/crash.rs"]
mod crash;
#[path = "program/crds.rs"]
mod crds;
#[path = "program/dev.rs"]
mod dev;
#[path = "program/dev_kcp.rs"]
mod dev_kcp;
#[path = "program/from_cluster.rs"]
mod from_cluster;
#[path = "program/get.rs"]
mod get;
#[path = "program/examples.rs"]
mod examples;
#[path = "program/examples_built.rs"]
mod examples_built;
#[path = "program/faults.rs"]
mod faults;
#[path = "program/faults_everywhere.rs"]
mod faults_everywhere;
#[path = "program/holding.rs"]
mod holding;
#[path = "program/hub.rs"]
mod hub;
#[path = "program/httpbin.rs"]
mod httpbin;
#[path = "program/chart_rights.rs"]
mod chart_rights;
#[path = "program/install.rs"]
mod install;
#[path = "program/languages.rs"]
mod languages;
#[path = "program/leading.rs"]
mod leading;
#[path = "program/sharded.rs"]
mod sharded;
#[path = "program/classes.rs"]
mod classes;
#[path = "program/memory.rs"]
mod memory;
#[path = "program/memory_hub.rs"]
mod memory_hub;
#[path = "program/mongodb.rs"]
mod mongodb;
#[path = "program/pages.rs"]
mod pages;
#[path = "program/publishing.rs"]
mod publishing;
#[path = "program/readme.rs"]
mod readme;
#[path = "program/recordings.rs"]
mod recordings;
#[path = "program/workspace_setup.rs"]
mod workspace_setup;
#[path = "program/native.rs"]
mod native;
#[path = "program/notices.rs"]
mod notices;
#[path = "program/objects.rs"]
mod objects;
#[path = "program/live.rs"]
mod live;
#[path = "program/journey.rs"]
mod journey;
#[path = "program/outside.rs"]
mod outside;
#[path = "program/pausing.rs"]
mod pausing;
#[path = "program/plan.rs"]
mod plan;
#[path = "program/plan_examples.rs"]
mod plan_examples;
#[path = "program/plan_flags.rs"]
mod plan_flags;
#[path = "program/plan_kcp.rs"]
mod plan_kcp;
#[path = "program/preflight.rs"]
mod preflight;
#[path = "program/preflight_kcp.rs"]
mod preflight_kcp;
#[path = "program/preflight_hubs.rs"]
mod preflight_hubs;
#[path = "program/pressure.rs"]
mod pressure;
#[path = "program/probes.rs"]
mod probes;
#[path = "program/project.rs"]
mod project;
#[path = "program/registries.rs"]
mod registries;
#[path = "program/registry.rs"]
mod registry;
#[path = "program/registry_signatures.rs"]
mod registry_signatures;
#[path = "program/registry_tags.rs"]
mod registry_tags;
#[path = "program/registry_teams.rs"]
mod registry_teams;
#[path = "program/providers.rs"]
mod providers;
#[path = "program/proxies.rs"]
mod proxies;
#[path = "program/reloading.rs"]
mod reloading;
#[path = "program/reloading_beside.rs"]
mod reloading_beside;
#[path = "program/reloading_midway.rs"]
mod reloading_midway;
#[path = "program/replaced.rs"]
mod replaced;
#[path = "program/releasing.rs"]
mod releasing;
#[path = "program/rights.rs"]
mod rights;
#[path = "program/roles.rs"]
mod roles;
#[path = "program/rollback.rs"]
mod rollback;
#[path = "program/run.rs"]
mod run;
#[path = "program/running.rs"]
mod running;
#[path = "program/chart_values.rs"]
mod chart_values;
#[path = "program/chart.rs"]
mod chart;
#[path = "program/pod.rs"]
mod pod;
#[path = "program/ipv6.rs"]
mod ipv6;
#[path = "program/scraped.rs"]
mod scraped;
#[path = "program/several.rs"]
mod several;
#[path = "program/shells.rs"]
mod shells;
#[path = "program/spokes.rs"]
mod spokes;
#[path = "program/traces.rs"]
mod traces;
#[path = "program/tutorial.rs"]
mod tutorial;
#[path = "program/types.rs"]
mod types;
#[path = "program/types_in_c.rs"]
mod types_in_c;
#[path = "program/types_kept.rs"]
mod types_kept;
#[path = "program/types_written.rs"]
mod types_written;
#[path = "program/website.rs"]
mod website;
#[path = "program/tenancy.rs"]
mod tenancy;
#[path = "program/witness.rs"]
mod witness;
