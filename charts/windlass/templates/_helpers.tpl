{{- define "windlass.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* The name of what the whole cluster sees: a release of another namespace may have the same name. */ -}}
{{- define "windlass.clusterName" -}}
{{ .Release.Namespace }}:{{ include "windlass.name" . }}
{{- end }}

{{- /* Whether another release that is still installed brought an object that all releases share. Takes the root and the object. */ -}}
{{- define "windlass.isAnothers" -}}
{{- $root := first . -}}
{{- $object := last . -}}
{{- $found := lookup $object.apiVersion $object.kind "" $object.metadata.name -}}
{{- $release := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found -}}
{{- $namespace := dig "metadata" "annotations" "meta.helm.sh/release-namespace" "" $found -}}
{{- if and $release (ne (printf "%s/%s" $namespace $release) (printf "%s/%s" $root.Release.Namespace $root.Release.Name)) -}}
{{- if lookup "apps/v1" "Deployment" $namespace ($release | trunc 50 | trimSuffix "-") -}}true{{- end -}}
{{- end -}}
{{- end }}

{{- /* The pods' security context, without the fields that are null. */ -}}
{{- define "windlass.podSecurityContext" -}}
{{- $kept := dict -}}
{{- range $field, $value := .Values.podSecurityContext -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $kept $field $value -}}
{{- end -}}
{{- end -}}
{{ toYaml $kept }}
{{- end }}

{{- define "windlass.labels" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "windlass.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "windlass.name" .) }}
{{- end }}

{{- define "windlass.image" -}}
{{- with .Values.image -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{- /* The name of the Lease. That of a sharding is the value of a label, and the names of releases may have dots. */ -}}
{{- define "windlass.lease" -}}
{{- $name := include "windlass.name" . -}}
{{ .Values.sharding.enabled | ternary (replace "." "-" $name) $name }}
{{- end }}

{{- /* The Manager's spec: what the chart sets, with the fields of the values over it. */ -}}
{{- define "windlass.manager" -}}
{{- $lease := dict "enabled" true "namespace" .Release.Namespace "name" (include "windlass.lease" .) -}}
{{- $own := dict
  "local" (dict "inCluster" true)
  (ternary "sharding" "leaderElection" .Values.sharding.enabled) $lease
  "admin" (dict
    "address" (printf "[::]:%v" .Values.ports.api)
    "probeAddress" (printf "[::]:%v" .Values.ports.probes)
    "metricsAddress" (printf "[::]:%v" .Values.ports.metrics)
    "authentication" "TokenReview") -}}
{{- with .Values.class -}}
{{- $_ := set $own "class" . -}}
{{- end -}}
{{ mergeOverwrite $own .Values.manager | toYaml }}
{{- end }}

{{- /* How many processes the PodDisruptionBudget keeps. A share is rounded up, as Kubernetes does. */ -}}
{{- define "windlass.kept" -}}
{{- $least := toString .Values.podDisruptionBudget.minAvailable -}}
{{- if hasSuffix "%" $least -}}
{{- div (add (mul (trimSuffix "%" $least | atoi) (int .Values.replicas)) 99) 100 -}}
{{- else -}}
{{- $least -}}
{{- end -}}
{{- end }}
