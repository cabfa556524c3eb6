{{/*
The objects are those of manifests/, so that `helm install` and `kubectl apply -k` can never differ by an oversight. The
templates read them, change what the values ask for, and give them to volsched.object.
*/}}

{{/* volsched.text: a file of manifests/ as this release's namespace has it. Takes (list $ "path"). */}}
{{- define "volsched.text" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "manifests/%s" (index . 1)) -}}
{{- required (printf "the chart has no manifests/%s" (index . 1)) $text | replace "volsched-system" $root.Release.Namespace -}}
{{- end -}}

{{/* volsched.object: one object, with the labels of its component ("" for none). Takes (list $ "component" object). */}}
{{- define "volsched.object" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $object := index . 2 -}}
{{- $labels := dict "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/instance" $root.Release.Name -}}
{{- $_ := set $labels "app.kubernetes.io/name" "volsched" -}}
{{- if $component }}{{ $_ := set $labels "app.kubernetes.io/component" $component }}{{ end -}}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) -}}
---
{{ toYaml $object }}
{{ end -}}

{{/* volsched.objects: every object of a file as it is. Takes (list $ "component" "path"). */}}
{{- define "volsched.objects" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- range splitList "\n---\n" (include "volsched.text" (list $root (index . 2))) -}}
{{- include "volsched.object" (list $root $component (fromYaml .)) -}}
{{- end -}}
{{- end -}}

{{/* volsched.image: the image's full name. */}}
{{- define "volsched.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* volsched.pod: fills a pod's spec in with what the values say of the image. Takes (list $ spec); prints nothing. */}}
{{- define "volsched.pod" -}}
{{- $root := index . 0 -}}
{{- $spec := index . 1 -}}
{{- $container := index $spec.containers 0 -}}
{{- $_ := set $container "image" (include "volsched.image" $root) -}}
{{- with $root.Values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- with $root.Values.image.pullSecrets -}}
{{- $references := list -}}
{{- range . }}{{ $references = append $references (dict "name" .) }}{{ end -}}
{{- $_ := set $spec "imagePullSecrets" $references -}}
{{- end -}}
{{- end -}}

{{/* volsched.process: fills a Deployment in with the values of its process. Takes (list $ values deployment); prints nothing. */}}
{{- define "volsched.process" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- $deployment := index . 2 -}}
{{- $template := $deployment.spec.template -}}
{{- $container := index $template.spec.containers 0 -}}
{{- include "volsched.pod" (list $root $template.spec) -}}
{{- $_ := set $deployment.spec "replicas" $values.replicas -}}
{{- if $root.Values.metricsAuth.enabled }}{{ $_ := set $container "args" (append $container.args "--metrics-auth") }}{{ end -}}
{{- $_ := set $container "args" (concat $container.args $values.extraArgs) -}}
{{- $_ := unset $container "resources" -}}
{{- with $values.resources }}{{ $_ := set $container "resources" . }}{{ end -}}
{{- $_ := set $template.spec "nodeSelector" (merge $template.spec.nodeSelector $values.nodeSelector) -}}
{{- with $values.tolerations }}{{ $_ := set $template.spec "tolerations" . }}{{ end -}}
{{- with $values.affinity }}{{ $_ := set $template.spec "affinity" . }}{{ end -}}
{{- $_ := set $template.metadata "labels" (merge $template.metadata.labels $values.podLabels) -}}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end -}}
{{- end -}}
