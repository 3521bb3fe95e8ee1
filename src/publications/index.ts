/**
 * `waybill/publications`: where a publication is, for a program; the commands `trace`, `audit`, `intent create`,
 * `replay`, `projection rebuild` and `decisions` do the same.
 */
export type { AuditKey, AuditOptions, AuditReport } from './audit.ts'
export type { DecidedIntent, Decision, IntentOptions, Replay, ReplayOptions } from './decisions.ts'
export { createDiagnosis } from './diagnosis.ts'
export type { Diagnosis, DiagnosisOptions, PublicationInput, RevisionKey } from './diagnosis.ts'
export type { Facts } from './collect.ts'
export type { Fact } from './facts/fact.ts'
export type { RebuildOptions, RebuildReport, RebuiltPublication } from './rebuild.ts'
export type { Signs } from './signs.ts'
export type { Trace, TraceRequest } from './trace.ts'
export type { Owner, PublicationState, Symptom } from './verdict.ts'
