package main

// What the variables choose. A label that a series lacks, as with other scrapers than the chart's, matches all of them.
const (
	release     = `namespace=~"$namespace", job=~"$job"`
	reconcilers = release + `, tenant=~"$tenant", reconciler=~"$reconciler"`
	clusters    = release + `, cluster=~"$cluster"`
)

// Other programs have metrics of these names: only processes of Windlass have this one.
const ofWindlass = ` and on (job, instance) windlass_configuration_problems`

func inRelease(metric string) string    { return metric + `{` + release + `}` }
func ofReconciler(metric string) string { return metric + `{` + reconcilers + `}` }
func ofCluster(metric string) string    { return metric + `{` + clusters + `}` }
func inProcess(metric string) string    { return inRelease(metric) + ofWindlass }

func rate(series string) string     { return `rate(` + series + `[$__rate_interval])` }
func sum(by, vector string) string  { return `sum by (` + by + `) (` + vector + `)` }
func most(by, vector string) string { return `max by (` + by + `) (` + vector + `)` }

// A fleet has thousands of clusters, and a graph has room for ten lines.
func top(vector string) string { return `topk(10, ` + vector + `)` }

func one(expr, legend string) []query { return []query{{expr, legend}} }

var boardRows = []row{
	{"Fleet", []panel{
		{
			title: "Processes",
			tells: "Processes that Prometheus reads. At 0 nothing is reconciled: look at the pods, then at the targets of Prometheus.",
			look:  needed, unit: "short",
			queries: one(`count(`+inRelease("windlass_configuration_problems")+`) or vector(0)`, ""),
		},
		{
			title: "Clusters Ready",
			tells: "Clusters whose watches all run and whose caches are in step. At 0 nothing is reconciled: windlass get clusters says why.",
			look:  needed, unit: "short",
			queries: one(`sum(windlass_clusters{`+release+`, state="Ready"})`, ""),
		},
		{
			title: "Clusters not Ready",
			tells: "Clusters that connect, that read their caches, or that are cut off. windlass get clusters has the reason of each.",
			look:  problems, unit: "short",
			queries: one(`sum(windlass_clusters{`+release+`, state!="Ready"})`, ""),
		},
		{
			title: "Documents not in effect",
			tells: "Documents of the configuration that are refused; their last good versions serve. /readyz?verbose and the log say what is wrong.",
			look:  problems, unit: "short",
			queries: one(`sum(`+inRelease("windlass_configuration_problems")+`)`, ""),
		},
		{
			title: "Problems of Providers",
			tells: "Files, contexts, objects and clusters that a Provider cannot use. windlass get providers names them.",
			look:  problems, unit: "short",
			queries: one(`sum(`+inRelease("windlass_provider_problems")+`) or vector(0)`, ""),
		},
		{
			title: "Clusters counted together",
			tells: "Clusters beyond spec.metrics.clusters of the Manager: they are the cluster __other__ on this page. Raise the bound to see each of them.",
			look:  problems, unit: "short",
			queries: one(`sum(`+inRelease("windlass_clusters_without_series")+`)`, ""),
		},
		{
			title: "Alerts that fire",
			tells: "Alerts of Windlass, of every release that this Prometheus knows. The runbook has a section for each: begin with those that are critical.",
			look:  rows, unit: "short",
			queries: one(`max by (severity, alertname, reconciler, cluster, provider) (ALERTS{alertname=~"Windlass.+", alertstate="firing"})`, ""),
		},
		{
			title: "Clusters by state",
			tells: "Engaged clusters. A fall of Ready across the fleet is this process's network, proxy or credentials; " +
				"a fall of the sum is a Provider that lost its source's clusters.",
			look: stacked, unit: "short",
			queries: one(sum("state", inRelease("windlass_clusters")), "{{state}}"),
		},
		{
			title: "Clusters that are not Ready now",
			tells: "Twenty of them at most. windlass get clusters has the reason and since when; other clusters work on meanwhile.",
			look:  rows, unit: "short",
			queries: one(`topk(20, `+most("cluster", ofCluster("windlass_cluster_ready"))+` == 0)`, ""),
		},
		{
			title: "Clusters by Provider",
			tells: "Clusters that each Provider found: engaged, and refused because another Provider has the name. " +
				"If any are refused, give one of the two a prefix.",
			look: lines, unit: "short",
			queries: one(sum("provider, result", inRelease("windlass_provider_clusters")), "{{provider}} {{result}}"),
		},
		{
			title: "Time since a Provider read its source",
			tells: "It grows while the source cannot be read: clusters stay as they are, none joins or leaves. windlass get providers has the reason.",
			look:  lines, unit: "s",
			queries: one(`time() - `+most("provider", inRelease("windlass_provider_listed_timestamp_seconds")+` > 0`), "{{provider}}"),
		},
		{
			title: "Lists and watches that fail",
			tells: "Per second, of the ten worst clusters. A server that is away is tried again by itself; " +
				"one that refuses wants a right, which windlass get reconcilers names.",
			look: lines, unit: "ops",
			queries: one(top(sum("cluster", rate(ofCluster("windlass_cluster_watch_failures_total")))), "{{cluster}}"),
		},
		{
			title: "Caches read anew",
			tells: "Lists that refilled a cache because the server had forgotten its events, and caches that had missed one. " +
				"Both should be rare; a server that forgets all the time needs a longer history.",
			look: lines, unit: "ops",
			queries: []query{
				{top(sum("cluster", rate(ofCluster("windlass_cluster_relists_total")))), "listed {{cluster}}"},
				{top(sum("cluster", rate(ofCluster("windlass_cluster_repairs_total")))), "repaired {{cluster}}"},
			},
		},
		{
			title: "Largest caches",
			tells: "Bytes of objects that the caches of the ten largest clusters hold. They are the larger part of the process's memory: " +
				"narrow what reconcilers watch by namespace or selector.",
			look: lines, unit: "bytes",
			queries: one(top(sum("cluster", ofCluster("windlass_cluster_bytes"))), "{{cluster}}"),
		},
	}},
	{"Reconciles", []panel{
		{
			title: "Reconciles by result",
			tells: "Attempts that ended, per second. No attempts while keys wait: look at the clusters, and at which process leads.",
			look:  stacked, unit: "ops",
			queries: one(sum("result", ofReconciler("reconciler_result:controller_runtime_reconcile:rate5m")), "{{result}}"),
		},
		{
			title: "Attempts by reconciler",
			tells: "Per second, of the ten busiest. One that never rests while nothing changes writes what it then watches: " +
				"windlass get keys --state throttled names its keys.",
			look: lines, unit: "ops",
			queries: one(top(sum("reconciler", ofReconciler("reconciler:controller_runtime_reconcile:rate5m"))), "{{reconciler}}"),
		},
		{
			title: "Share of attempts that fail",
			tells: "Of the ten worst reconcilers. windlass get keys --state failing -o wide has the errors. " +
				"If a revision began it, windlass rollback serves the previous one.",
			look: share, unit: "percentunit",
			queries: one(top(most("reconciler", ofReconciler("reconciler:controller_runtime_reconcile_errors:ratio_rate5m"))), "{{reconciler}}"),
		},
		{
			title: "Failures by blame and reason",
			tells: "The blame says who can help: guest, its author; api, the cluster's server or its rights; host, this process and its limits.",
			look:  stacked, unit: "ops",
			queries: one(sum("blame, reason", rate(ofReconciler("windlass_reconcile_failures_total"))), "{{blame}} {{reason}}"),
		},
		{
			title: "Clusters where reconcilers fail",
			tells: "Failures per second of the ten worst pairs. One cluster for all reconcilers: look at its server. One reconciler everywhere: at its guest.",
			look:  lines, unit: "ops",
			queries: one(
				top(sum("reconciler, cluster", `reconciler_cluster:controller_runtime_reconcile_errors:rate10m{`+reconcilers+`, cluster=~"$cluster"}`)),
				"{{reconciler}} {{cluster}}",
			),
		},
		{
			title: "Duration of an attempt",
			tells: "Half of the attempts are shorter than p50, all but one in a hundred than p99; of the ten slowest reconcilers. " +
				"If both grow it is the guest or its servers, if only p99 does it is some clusters.",
			look: lines, unit: "s",
			queries: quantiles("reconciler:controller_runtime_reconcile_time_seconds", "rate5m"),
		},
		{
			title: "Time in the queue",
			tells: "How long keys were ready before they ran. It grows when slots are used up: windlass get tenants shows who has them. " +
				"Raise concurrency of the reconciler or the Manager, or lower that of a neighbour.",
			look: lines, unit: "s",
			queries: quantiles("reconciler:workqueue_queue_duration_seconds", "rate10m"),
		},
		{
			title: "Keys that wait",
			tells: "Ready keys wait for a slot, those in backoff have failed, delayed ones wait as their guest asked, throttled ones ran too often, " +
				"terminal ones failed for good and wait for an event or windlass requeue.",
			look: stacked, unit: "short",
			queries: []query{
				{`sum(` + ofReconciler("workqueue_depth") + `)`, "ready"},
				{`sum(` + ofReconciler("windlass_queue_backoff") + `)`, "backoff"},
				{`sum(` + ofReconciler("windlass_queue_delayed") + `)`, "delayed"},
				{`sum(` + ofReconciler("windlass_queue_throttled") + `)`, "throttled"},
				{`sum(` + ofReconciler("windlass_queue_terminal") + `)`, "terminal"},
			},
		},
		{
			title: "Ready keys by reconciler",
			tells: "Of the ten longest queues. One that does not shrink gets fewer slots than it needs: compare with its slots in use.",
			look:  lines, unit: "short",
			queries: one(top(sum("reconciler", ofReconciler("workqueue_depth"))), "{{reconciler}}"),
		},
		{
			title: "Slots in use",
			tells: "Part of the attempts that may run at once. At 100 % keys wait: raise the limit if the process and the servers can bear it.",
			look:  share, unit: "percentunit",
			queries: one(
				top(sum("reconciler", ofReconciler("controller_runtime_active_workers"))+
					` / `+sum("reconciler", ofReconciler("controller_runtime_max_concurrent_reconciles"))),
				"{{reconciler}}",
			),
		},
		{
			title: "Longest attempt that still runs",
			tells: "Of the ten reconcilers with the oldest one. Longer than limits.timeout it waits for a write to end: " +
				"windlass get keys --state running names the key and its cluster.",
			look: lines, unit: "s",
			queries: one(top(most("reconciler", ofReconciler("workqueue_longest_running_processor_seconds"))), "{{reconciler}}"),
		},
		{
			title: "Changes that are not reconciled",
			tells: "Watches that fail, and events and deletions that wait for a mapper. windlass get reconcilers has the missing right or the mapper's error.",
			look:  lines, unit: "short",
			queries: []query{
				{top(sum("reconciler", ofReconciler("windlass_watches_failing"))), "watches {{reconciler}}"},
				{top(sum("reconciler", ofReconciler("windlass_events_unmapped"))), "events {{reconciler}}"},
				{top(sum("reconciler", ofReconciler("windlass_deletions_waiting"))), "deletions {{reconciler}}"},
			},
		},
	}},
	{"Guests", []panel{
		{
			title: "Most memory of an instance",
			tells: "Of the ten largest guests. Near spec.limits.memory, which is 64Mi by default, " +
				"attempts fail with the reason memory: raise it, or have the guest read in pages.",
			look: lines, unit: "bytes",
			queries: one(top(most("reconciler", ofReconciler("windlass_guest_memory_peak_bytes"))), "{{reconciler}}"),
		},
		{
			title: "Memory of tenants",
			tells: "Memory of all live instances of a tenant. Near the tenant's limit its keys wait for memory, and idle instances end.",
			look:  lines, unit: "bytes",
			queries: one(top(sum("tenant", `windlass_tenant_memory_bytes{`+release+`, tenant=~"$tenant"}`)), "{{tenant}}"),
		},
		{
			title: "Processor time of guests",
			tells: "Processors that the ten busiest guests use, and those that they lack because their tenant's turn had not come. " +
				"If guests wait, give the process more processors or the tenant more weight.",
			look: lines, unit: "short",
			queries: []query{
				{top(sum("reconciler", rate(ofReconciler("windlass_guest_cpu_seconds_total")))), "{{reconciler}}"},
				{top(sum("reconciler", rate(ofReconciler("windlass_guest_cpu_waited_seconds_total")))), "waited {{reconciler}}"},
			},
		},
		{
			title: "Traps and other failures of guests",
			tells: "Per second, by reconciler and reason. A trap is a bug of the guest: windlass get keys --state failing -o wide has it. " +
				"If a revision began it, roll it back.",
			look: lines, unit: "ops",
			queries: one(
				top(sum("reconciler, reason", rate(`windlass_reconcile_failures_total{`+reconcilers+`, blame="guest"}`))),
				"{{reconciler}} {{reason}}",
			),
		},
		{
			title: "Limits that guests hit",
			tells: "Per second. docs/limits.md says what each limit does when it is hit, and which field raises it.",
			look:  lines, unit: "ops",
			queries: one(top(sum("reconciler, limit", rate(ofReconciler("windlass_guest_limit_hits_total")))), "{{reconciler}} {{limit}}"),
		},
		{
			title: "Idle instances",
			tells: "Instances that wait for the next call, of the ten guests with most. They save the start of a call, and end when memory is short.",
			look:  lines, unit: "short",
			queries: one(top(sum("reconciler", ofReconciler("windlass_guest_idle_instances"))), "{{reconciler}}"),
		},
		{
			title: "Revisions that serve",
			tells: "The SHA-256 of each guest's component, and of the one that windlass rollback brings back. " +
				"Two rows of one reconciler are two processes that differ: wait for the reload, or see which one refuses it.",
			look: rows, unit: "short",
			queries: one(`max by (tenant, reconciler, revision, previous) (`+ofReconciler("windlass_guest_info")+`)`, ""),
		},
		{
			title: "Age of revisions",
			tells: "Time since the revision that serves came into use, of the ten youngest. Compare with when failures began.",
			look:  valued, unit: "s",
			queries: one(`bottomk(10, time() - max by (tenant, reconciler) (`+ofReconciler("windlass_guest_loaded_timestamp_seconds")+` > 0))`, ""),
		},
		{
			title: "Reloads",
			tells: "Guests and configurations that came into effect or were refused, per second. A refused one leaves the last good one serving: " +
				"windlass get reconcilers has the reason.",
			look: lines, unit: "ops",
			queries: []query{
				{sum("result", rate(ofReconciler("windlass_guest_reloads_total"))), "{{result}}"},
				{`sum(` + ofReconciler("windlass_guest_reload_refused") + `)`, "reconcilers without their newest"},
			},
		},
	}},
	{"API calls", []panel{
		{
			title: "Calls by status",
			tells: "Calls to API servers per second. <error> had no answer; 409 is a conflict, which guests meet when others write too; 403 lacks a right.",
			look:  stacked, unit: "reqps",
			queries: one(sum("code", inRelease("code_method:rest_client_requests:rate5m")), "{{code}}"),
		},
		{
			title: "Calls by method",
			tells: "Per second. Many GET of a guest: grant list and watch so that it reads from a cache. Many PATCH or PUT: it writes what is already so.",
			look:  stacked, unit: "reqps",
			queries: one(sum("method", inRelease("code_method:rest_client_requests:rate5m")), "{{method}}"),
		},
		{
			title: "Calls of tenants under way",
			tells: "Calls that wait for an API server's answer. A rise without more calls is slow servers: attempts take longer, too.",
			look:  lines, unit: "short",
			queries: one(top(sum("tenant", `windlass_tenant_requests_in_flight{`+release+`, tenant=~"$tenant"}`)), "{{tenant}}"),
		},
		{
			title: "Clusters that throttle",
			tells: "Answers 429 per second of the ten worst clusters. Calls wait as long as the server asks. Give the user a priority level there, " +
				"or set spec.limits.requestsPerSecond of the reconciler that calls most.",
			look: lines, unit: "reqps",
			queries: one(top(sum("cluster", `cluster_code:rest_client_requests:rate5m{`+clusters+`, code="429"}`)), "{{cluster}}"),
		},
		{
			title: "Clusters that fail or do not answer",
			tells: "Answers 5xx and calls without an answer, per second, of the ten worst clusters. Look at their servers and the way there.",
			look:  lines, unit: "reqps",
			queries: one(top(sum("cluster", `cluster_code:rest_client_requests:rate5m{`+clusters+`, code=~"5..|<error>"}`)), "{{cluster}}"),
		},
		{
			title: "Denied calls",
			tells: "Calls that no rule of the Reconciler or its Tenant grants, per second. " +
				"windlass get reconcilers -o wide prints the missing rule: grant it, or repair the guest.",
			look: lines, unit: "reqps",
			queries: one(top(sum("reconciler", rate(ofReconciler("windlass_guest_denials_total")))), "{{reconciler}}"),
		},
		{
			title: "Connections",
			tells: "Open connections to the servers of the ten clusters with most; shared ones count for each. Many of them need more open files.",
			look:  lines, unit: "short",
			queries: one(top(sum("cluster", ofCluster("windlass_cluster_connections"))), "{{cluster}}"),
		},
		{
			title: "Answers in memory",
			tells: "Part of the memory for answers of API servers that is in use. " +
				"Near 100 % raise spec.transport.answersInMemory of the Manager, or have guests read in pages.",
			look: share, unit: "percentunit",
			queries: one(inRelease("windlass_answer_bytes")+` / `+inRelease("windlass_answer_bytes_limit"), "{{instance}}"),
		},
		{
			title: "Refused answers and dropped Events",
			tells: "Per second. A call whose answer is refused gets limit-exceeded: " +
				"guests read more at once than the process may hold. Dropped Events are only missing in kubectl describe.",
			look: lines, unit: "ops",
			queries: []query{
				{`sum(` + rate(inRelease("windlass_answers_rejected_total")) + `)`, "answers"},
				{`sum(` + rate(ofCluster("windlass_events_dropped_total")) + `)`, "Events"},
			},
		},
	}},
	{"Process", []panel{
		{
			title: "Memory",
			tells: "Memory of each process. Near the limit of its pod fewer attempts run at once: raise it. Largest caches and Memory of tenants show who has it.",
			look:  lines, unit: "bytes",
			queries: one(inProcess("process_resident_memory_bytes"), "{{instance}}"),
		},
		{
			title: "Processors",
			tells: "Processors that each process uses. At the pod's limit everything is slow: raise it, or see which guest computes most.",
			look:  lines, unit: "short",
			queries: one(rate(inRelease("process_cpu_seconds_total"))+ofWindlass, "{{instance}}"),
		},
		{
			title: "Who leads",
			tells: "1 for the process that holds the Lease, and so reconciles. All 0 for minutes: see the Lease, and the right to write it.",
			look:  lines, unit: "short",
			queries: one(inProcess("leader_election_master_status"), "{{instance}} {{name}}"),
		},
		{
			title: "Shards held",
			tells: "Shards of the clusters that each process works on, if they share the work. One far above the others has a larger weight, or others drain.",
			look:  lines, unit: "short",
			queries: one(inProcess("windlass_shards_held"), "{{instance}}"),
		},
		{
			title: "Shards without an owner",
			tells: "Nothing is reconciled in their clusters. More than 0 for minutes: windlass get shards names the clusters, and why.",
			look:  lines, unit: "short",
			queries: one(`min(`+inProcess("windlass_shards_without_owner")+`)`, "shards"),
		},
		{
			title: "Short of",
			tells: "1 while a process has nearly used up its memory or open files. It recovers by itself when there is room: see the runbook.",
			look:  lines, unit: "short",
			queries: one(most("instance, resource", inRelease("windlass_process_short_of")), "{{instance}} {{resource}}"),
		},
		{
			title: "Open files",
			tells: "Part of the open files that a process may have. Each connection is one: raise the limit of the container runtime.",
			look:  share, unit: "percentunit",
			queries: one(inRelease("process_open_fds")+` / `+inRelease("process_max_fds")+ofWindlass, "{{instance}}"),
		},
		{
			title: "Time since the start",
			tells: "A fall is a restart. If nobody asked for one, the log of the previous container has the cause: kubectl logs --previous.",
			look:  lines, unit: "s",
			queries: one(`time() - `+inRelease("process_start_time_seconds")+ofWindlass, "{{instance}}"),
		},
		{
			title: "Threads",
			tells: "Threads of each process. They follow the processors and blocking work; steady growth is a bug: report it.",
			look:  lines, unit: "short",
			queries: one(inProcess("process_threads"), "{{instance}}"),
		},
	}},
}

// p50 and p99, recorded, of the ten reconcilers where they are longest.
func quantiles(metric, window string) []query {
	of := func(quantile string) query {
		recorded := metric + `:` + quantile + `_` + window
		return query{top(most("reconciler", ofReconciler(recorded))), quantile + " {{reconciler}}"}
	}
	return []query{of("p50"), of("p99")}
}
