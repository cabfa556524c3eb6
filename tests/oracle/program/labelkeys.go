package main

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mergeLabelKeys puts what matchLabelKeys and mismatchLabelKeys mean into the label selectors. The API server does so
// when a pod is created; the plugins expect it.
func mergeLabelKeys(pod *v1.Pod) {
	for _, term := range affinityTerms(pod.Spec.Affinity) {
		merge(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
		merge(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		merge(constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
}

// merge adds a requirement per key that the pod has. A selector that is nil matches nothing, and stays so.
func merge(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			requirement := metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}}
			selector.MatchExpressions = append(selector.MatchExpressions, requirement)
		}
	}
}

func affinityTerms(affinity *v1.Affinity) (terms []*v1.PodAffinityTerm) {
	if affinity == nil {
		return nil
	}
	if wanted := affinity.PodAffinity; wanted != nil {
		terms = append(terms, termsOf(wanted.RequiredDuringSchedulingIgnoredDuringExecution)...)
		terms = append(terms, weightedTermsOf(wanted.PreferredDuringSchedulingIgnoredDuringExecution)...)
	}
	if unwanted := affinity.PodAntiAffinity; unwanted != nil {
		terms = append(terms, termsOf(unwanted.RequiredDuringSchedulingIgnoredDuringExecution)...)
		terms = append(terms, weightedTermsOf(unwanted.PreferredDuringSchedulingIgnoredDuringExecution)...)
	}
	return terms
}

func termsOf(items []v1.PodAffinityTerm) (terms []*v1.PodAffinityTerm) {
	for i := range items {
		terms = append(terms, &items[i])
	}
	return terms
}

func weightedTermsOf(items []v1.WeightedPodAffinityTerm) (terms []*v1.PodAffinityTerm) {
	for i := range items {
		terms = append(terms, &items[i].PodAffinityTerm)
	}
	return terms
}

// uidOf names a pod that came without a uid; the scheduler's cache tells pods apart by it.
func uidOf(pod *v1.Pod) types.UID {
	return types.UID(pod.Namespace + "/" + pod.Name)
}
