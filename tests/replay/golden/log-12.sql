BEGIN TRANSACTION;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE event_fields (
    kind VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    PRIMARY KEY (kind, position)
) WITHOUT ROWID
;
INSERT INTO "event_fields" VALUES('AllocationChanged',3,'allocation');
INSERT INTO "event_fields" VALUES('AllocationChanged',4,'because');
INSERT INTO "event_fields" VALUES('AllocationChanged',5,'instant');
INSERT INTO "event_fields" VALUES('AllocationLearned',3,'attempt');
INSERT INTO "event_fields" VALUES('AllocationLearned',4,'allocation');
INSERT INTO "event_fields" VALUES('AttemptEnded',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptEnded',4,'exit_code');
INSERT INTO "event_fields" VALUES('AttemptEnded',5,'ended_us');
INSERT INTO "event_fields" VALUES('AttemptEnded',6,'memory_kills');
INSERT INTO "event_fields" VALUES('AttemptEnded',7,'signal');
INSERT INTO "event_fields" VALUES('AttemptLost',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptLost',4,'cause');
INSERT INTO "event_fields" VALUES('AttemptLost',5,'lost_us');
INSERT INTO "event_fields" VALUES('AttemptSetAside',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptSetAside',4,'by');
INSERT INTO "event_fields" VALUES('AttemptStarted',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptStarted',4,'resumed_from');
INSERT INTO "event_fields" VALUES('AttemptStarted',5,'migrated_from');
INSERT INTO "event_fields" VALUES('AttemptStarted',6,'speed');
INSERT INTO "event_fields" VALUES('AttemptStarted',7,'keeps_split');
INSERT INTO "event_fields" VALUES('AttemptStarted',8,'checkpoints_stay');
INSERT INTO "event_fields" VALUES('AttemptStarted',9,'may_tell_training');
INSERT INTO "event_fields" VALUES('AttemptStarted',10,'waited');
INSERT INTO "event_fields" VALUES('AttemptStarted',11,'started_us');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',3,'attempt');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',4,'nodes');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',5,'step');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',6,'cause');
INSERT INTO "event_fields" VALUES('CheckpointDiscarded',7,'by');
INSERT INTO "event_fields" VALUES('CheckpointSaved',3,'attempt');
INSERT INTO "event_fields" VALUES('CheckpointSaved',4,'checkpoint');
INSERT INTO "event_fields" VALUES('CheckpointSaved',5,'step');
INSERT INTO "event_fields" VALUES('CheckpointSaved',6,'bytes');
INSERT INTO "event_fields" VALUES('CheckpointSaved',7,'nodes');
INSERT INTO "event_fields" VALUES('ClockStepped',3,'by_us');
INSERT INTO "event_fields" VALUES('ConfigChanged',3,'config');
INSERT INTO "event_fields" VALUES('ConfigChanged',4,'keys');
INSERT INTO "event_fields" VALUES('ConfigChanged',5,'policy');
INSERT INTO "event_fields" VALUES('ConfigChanged',6,'policy_version');
INSERT INTO "event_fields" VALUES('EventsLost',3,'first_seq');
INSERT INTO "event_fields" VALUES('EventsLost',4,'last_seq');
INSERT INTO "event_fields" VALUES('EventsLost',5,'last_number');
INSERT INTO "event_fields" VALUES('GangApproved',3,'version');
INSERT INTO "event_fields" VALUES('GangApproved',4,'choice');
INSERT INTO "event_fields" VALUES('GangApproved',5,'cause');
INSERT INTO "event_fields" VALUES('GangProposed',3,'version');
INSERT INTO "event_fields" VALUES('GangProposed',4,'candidates');
INSERT INTO "event_fields" VALUES('GangProposed',5,'cause');
INSERT INTO "event_fields" VALUES('GangProposed',6,'by');
INSERT INTO "event_fields" VALUES('GangRejected',3,'version');
INSERT INTO "event_fields" VALUES('GangRejected',4,'reason');
INSERT INTO "event_fields" VALUES('GangRejected',5,'conflicts');
INSERT INTO "event_fields" VALUES('GangRejected',6,'cause');
INSERT INTO "event_fields" VALUES('GangRejected',7,'detail');
INSERT INTO "event_fields" VALUES('GangRejected',8,'retry_us');
INSERT INTO "event_fields" VALUES('GangRejected',9,'count');
INSERT INTO "event_fields" VALUES('GpuQuarantined',3,'node');
INSERT INTO "event_fields" VALUES('GpuQuarantined',4,'gpu');
INSERT INTO "event_fields" VALUES('GpuQuarantined',5,'cause');
INSERT INTO "event_fields" VALUES('GpuRestored',3,'node');
INSERT INTO "event_fields" VALUES('GpuRestored',4,'gpu');
INSERT INTO "event_fields" VALUES('GpusReleased',3,'attempt');
INSERT INTO "event_fields" VALUES('GpusTaken',3,'node');
INSERT INTO "event_fields" VALUES('GpusTaken',4,'gpu_mask');
INSERT INTO "event_fields" VALUES('GpusTaken',5,'cause');
INSERT INTO "event_fields" VALUES('GpusTaken',6,'cpus_milli');
INSERT INTO "event_fields" VALUES('GpusTaken',7,'memory_mb');
INSERT INTO "event_fields" VALUES('JobCancelRequested',3,'by');
INSERT INTO "event_fields" VALUES('JobCancelRequested',4,'group');
INSERT INTO "event_fields" VALUES('JobCancelled',3,'cause');
INSERT INTO "event_fields" VALUES('JobCancelled',4,'ended_us');
INSERT INTO "event_fields" VALUES('JobContinued',3,'attempt');
INSERT INTO "event_fields" VALUES('JobContinued',4,'nodes');
INSERT INTO "event_fields" VALUES('JobFailed',3,'cause');
INSERT INTO "event_fields" VALUES('JobFailed',4,'exit_code');
INSERT INTO "event_fields" VALUES('JobFailed',5,'ended_us');
INSERT INTO "event_fields" VALUES('JobFinished',3,'ended_us');
INSERT INTO "event_fields" VALUES('JobGroupChanged',3,'group');
INSERT INTO "event_fields" VALUES('JobGroupChanged',4,'by');
INSERT INTO "event_fields" VALUES('JobHeld',3,'by');
INSERT INTO "event_fields" VALUES('JobHeld',4,'until_us');
INSERT INTO "event_fields" VALUES('JobPriorityChanged',3,'priority');
INSERT INTO "event_fields" VALUES('JobPriorityChanged',4,'by');
INSERT INTO "event_fields" VALUES('JobPriorityChanged',5,'group');
INSERT INTO "event_fields" VALUES('JobRejected',3,'reason');
INSERT INTO "event_fields" VALUES('JobRejected',4,'needed');
INSERT INTO "event_fields" VALUES('JobRejected',5,'most');
INSERT INTO "event_fields" VALUES('JobRejected',6,'detail');
INSERT INTO "event_fields" VALUES('JobReleased',3,'by');
INSERT INTO "event_fields" VALUES('JobReshaped',3,'allocation');
INSERT INTO "event_fields" VALUES('JobReshaped',4,'because');
INSERT INTO "event_fields" VALUES('JobResized',3,'gpus');
INSERT INTO "event_fields" VALUES('JobResized',4,'by');
INSERT INTO "event_fields" VALUES('JobRetried',3,'attempt');
INSERT INTO "event_fields" VALUES('JobStopped',3,'attempt');
INSERT INTO "event_fields" VALUES('JobStopped',4,'nodes');
INSERT INTO "event_fields" VALUES('JobSubmitted',3,'spec');
INSERT INTO "event_fields" VALUES('JobSubmitted',4,'duration_us');
INSERT INTO "event_fields" VALUES('JobSubmitted',5,'dedupe_key');
INSERT INTO "event_fields" VALUES('JobSubmitted',6,'environment');
INSERT INTO "event_fields" VALUES('JobSubmitted',7,'ended');
INSERT INTO "event_fields" VALUES('JobSuspended',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSuspended',4,'step');
INSERT INTO "event_fields" VALUES('JobSuspended',5,'lost_us');
INSERT INTO "event_fields" VALUES('JobSuspended',6,'cause');
INSERT INTO "event_fields" VALUES('LaunchFailed',3,'attempt');
INSERT INTO "event_fields" VALUES('LaunchFailed',4,'cause');
INSERT INTO "event_fields" VALUES('LaunchFailed',5,'retryable');
INSERT INTO "event_fields" VALUES('LaunchFailed',6,'checkpoint_on');
INSERT INTO "event_fields" VALUES('LaunchFailed',7,'waited');
INSERT INTO "event_fields" VALUES('LaunchFailed',8,'checkpoint_stays');
INSERT INTO "event_fields" VALUES('MessagesDropped',3,'attempt');
INSERT INTO "event_fields" VALUES('MessagesDropped',4,'count');
INSERT INTO "event_fields" VALUES('MessagesDropped',5,'cause');
INSERT INTO "event_fields" VALUES('MessagesDropped',6,'nodes');
INSERT INTO "event_fields" VALUES('NodeAdded',3,'node');
INSERT INTO "event_fields" VALUES('NodeAdded',4,'configuration');
INSERT INTO "event_fields" VALUES('NodeDrained',3,'node');
INSERT INTO "event_fields" VALUES('NodeDrained',4,'by');
INSERT INTO "event_fields" VALUES('NodeLost',3,'node');
INSERT INTO "event_fields" VALUES('NodeLost',4,'cause');
INSERT INTO "event_fields" VALUES('NodeReachable',3,'node');
INSERT INTO "event_fields" VALUES('NodeRemoved',3,'node');
INSERT INTO "event_fields" VALUES('NodeRestored',3,'node');
INSERT INTO "event_fields" VALUES('NodeRestored',4,'by');
INSERT INTO "event_fields" VALUES('NodeUnreachable',3,'node');
INSERT INTO "event_fields" VALUES('PlanRejected',3,'reason');
INSERT INTO "event_fields" VALUES('PlanRejected',4,'rule');
INSERT INTO "event_fields" VALUES('PlanRejected',5,'detail');
INSERT INTO "event_fields" VALUES('PolicySetAside',3,'policy');
INSERT INTO "event_fields" VALUES('PolicySetAside',4,'cause');
INSERT INTO "event_fields" VALUES('PolicySetAside',5,'told');
INSERT INTO "event_fields" VALUES('ProfileMeasured',3,'model');
INSERT INTO "event_fields" VALUES('ProfileMeasured',4,'gpu_type');
INSERT INTO "event_fields" VALUES('ProfileMeasured',5,'gpus');
INSERT INTO "event_fields" VALUES('ProfileMeasured',6,'steps_per_s');
INSERT INTO "event_fields" VALUES('ProfileMeasured',7,'batch_size');
INSERT INTO "event_fields" VALUES('ProfileMeasured',8,'cpus_milli');
INSERT INTO "event_fields" VALUES('ProfileMeasured',9,'memory_mb');
INSERT INTO "event_fields" VALUES('ProfileMeasured',10,'level');
INSERT INTO "event_fields" VALUES('ProfileSampled',3,'attempt');
INSERT INTO "event_fields" VALUES('ProfileSampled',4,'step');
INSERT INTO "event_fields" VALUES('ProfileSampled',5,'batch_s');
INSERT INTO "event_fields" VALUES('ProfileSampled',6,'gpu_utilisation');
INSERT INTO "event_fields" VALUES('ProfileSampled',7,'gpu_memory_mb');
INSERT INTO "event_fields" VALUES('ProfileSampled',8,'cpus');
INSERT INTO "event_fields" VALUES('ProfileSampled',9,'memory_mb');
INSERT INTO "event_fields" VALUES('ProfileSampled',10,'message_bytes_largest');
INSERT INTO "event_fields" VALUES('ProfileSampled',11,'message_bytes_total');
INSERT INTO "event_fields" VALUES('QuotaChanged',3,'queue');
INSERT INTO "event_fields" VALUES('QuotaChanged',4,'quota_gpus');
INSERT INTO "event_fields" VALUES('QuotaChanged',5,'weight');
INSERT INTO "event_fields" VALUES('QuotaChanged',6,'users');
INSERT INTO "event_fields" VALUES('ReservationSet',3,'start_us');
INSERT INTO "event_fields" VALUES('ReservationSet',4,'gpus');
INSERT INTO "event_fields" VALUES('ReservationSet',5,'shares');
INSERT INTO "event_fields" VALUES('ReshapeRefused',3,'attempt');
INSERT INTO "event_fields" VALUES('ReshapeRefused',4,'wanted');
INSERT INTO "event_fields" VALUES('ReshapeRefused',5,'kept');
INSERT INTO "event_fields" VALUES('ReshapeRefused',6,'cause');
INSERT INTO "event_fields" VALUES('RoundPlanned',3,'number');
INSERT INTO "event_fields" VALUES('RoundPlanned',4,'skipped');
INSERT INTO "event_fields" VALUES('RoundPlanned',5,'seen');
INSERT INTO "event_fields" VALUES('RoundPlanned',6,'trigger');
INSERT INTO "event_fields" VALUES('RoundPlanned',7,'waits');
INSERT INTO "event_fields" VALUES('RoundPlanned',8,'fault');
INSERT INTO "event_fields" VALUES('RoundPlanned',9,'consolidated');
INSERT INTO "event_fields" VALUES('RoundPlanned',10,'spread');
INSERT INTO "event_fields" VALUES('RoundPlanned',11,'admitted');
INSERT INTO "event_fields" VALUES('RoundPlanned',12,'dismissed');
INSERT INTO "event_fields" VALUES('SchedulerStarted',3,'term');
INSERT INTO "event_fields" VALUES('SchedulerStarted',4,'version');
INSERT INTO "event_fields" VALUES('SchedulerStarted',5,'policy');
INSERT INTO "event_fields" VALUES('SchedulerStarted',6,'policy_version');
INSERT INTO "event_fields" VALUES('SchedulerStarted',7,'seed');
INSERT INTO "event_fields" VALUES('SchedulerStarted',8,'config');
INSERT INTO "event_fields" VALUES('SchedulerStarted',9,'digests');
INSERT INTO "event_fields" VALUES('SchedulerStarted',10,'cluster_id');
INSERT INTO "event_fields" VALUES('SchedulerStarted',11,'simulated');
INSERT INTO "event_fields" VALUES('SchedulerStopped',3,'cause');
INSERT INTO "event_fields" VALUES('SegmentSealed',3,'first_seq');
INSERT INTO "event_fields" VALUES('SegmentSealed',4,'last_seq');
INSERT INTO "event_fields" VALUES('SegmentSealed',5,'digest');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',3,'model');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',4,'gpus');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',5,'cpus_milli');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',6,'memory_mb');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',7,'expected');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',8,'measured');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',9,'base_cpus_milli');
INSERT INTO "event_fields" VALUES('SensitivityCorrected',10,'base_memory_mb');
INSERT INTO "event_fields" VALUES('SizesSet',3,'sizes');
INSERT INTO "event_fields" VALUES('SizesSet',4,'speed');
INSERT INTO "event_fields" VALUES('SizesSet',5,'bound');
INSERT INTO "event_fields" VALUES('SizesSet',6,'gap');
INSERT INTO "event_fields" VALUES('SizesSet',7,'status');
INSERT INTO "event_fields" VALUES('SpeedChanged',3,'attempt');
INSERT INTO "event_fields" VALUES('SpeedChanged',4,'speed');
INSERT INTO "event_fields" VALUES('SuspendAcknowledged',3,'attempt');
INSERT INTO "event_fields" VALUES('SuspendAcknowledged',4,'nodes');
INSERT INTO "event_fields" VALUES('SuspendEscalated',3,'attempt');
INSERT INTO "event_fields" VALUES('SuspendEscalated',4,'mode');
INSERT INTO "event_fields" VALUES('SuspendEscalated',5,'nodes');
INSERT INTO "event_fields" VALUES('TargetsSet',3,'targets');
INSERT INTO "event_fields" VALUES('TargetsSet',4,'solver');
INSERT INTO "event_fields" VALUES('TargetsSet',5,'status');
INSERT INTO "event_fields" VALUES('TimeLimitReached',3,'limit_us');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',3,'model');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',4,'gpu_type');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',5,'level');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',6,'split');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',7,'batch_us');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',8,'samples');
INSERT INTO "event_fields" VALUES('ToleranceLearnt',9,'batch_size');
INSERT INTO "event_fields" VALUES('TrainingStarted',3,'attempt');
INSERT INTO "event_fields" VALUES('TrainingStarted',4,'nodes');
INSERT INTO "event_fields" VALUES('TrialKept',3,'trial');
INSERT INTO "event_fields" VALUES('TrialKept',4,'measured');
INSERT INTO "event_fields" VALUES('TrialKept',5,'reason');
INSERT INTO "event_fields" VALUES('TrialKept',6,'batches');
INSERT INTO "event_fields" VALUES('TrialReverted',3,'trial');
INSERT INTO "event_fields" VALUES('TrialReverted',4,'measured');
INSERT INTO "event_fields" VALUES('TrialReverted',5,'reason');
INSERT INTO "event_fields" VALUES('TrialReverted',6,'batches');
INSERT INTO "event_fields" VALUES('TrialStarted',3,'trial');
INSERT INTO "event_fields" VALUES('TrialStarted',4,'partners');
INSERT INTO "event_fields" VALUES('TrialStarted',5,'baseline');
INSERT INTO "event_fields" VALUES('TrialStarted',6,'batches');
INSERT INTO "event_fields" VALUES('TrialStarted',7,'key');
INSERT INTO "event_fields" VALUES('TurnEnded',3,'attempt');
INSERT INTO "event_fields" VALUES('TurnEnded',4,'ended_us');
INSERT INTO "event_fields" VALUES('TurnEnded',5,'nodes');
INSERT INTO "event_fields" VALUES('TurnStarted',3,'attempt');
INSERT INTO "event_fields" VALUES('TurnStarted',4,'shares');
INSERT INTO "event_fields" VALUES('TurnStarted',5,'speed');
INSERT INTO "event_fields" VALUES('TurnStarted',6,'began_us');
INSERT INTO "event_fields" VALUES('TurnStarted',7,'can_move');
INSERT INTO "event_fields" VALUES('WaitReasonChanged',3,'wait');
CREATE TABLE frames (
    first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    term INTEGER NOT NULL,
    chain BLOB NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (first_seq)
);
INSERT INTO "frames" VALUES(61,30,540,1,X'DA7496622950A9E037B7059EDA05F7D7C533F52EEA437659D3351AA1D7E06968','[["RoundPlanned",540,null,649,752,427],["RoundPlanned",540,null,649,752,427,"wake",[[[447,"queue é",1073,967,["gpu_types é","gpu_types é"],"cluster",[[644,644],[644,644]],true,true,true],["checkpoint_stays",613,418,["blockers é","blockers é"],"detail é"]],[[447,"queue é",1073,967,["gpu_types é","gpu_types é"],"cluster",[[644,644],[644,644]],true,true,true],["checkpoint_stays",613,418,["blockers é","blockers é"],"detail é"]]],"fault é",["consolidated é","consolidated é"],["spread é","spread é"],["admitted é","admitted é"],["dismissed é","dismissed é"]],["TargetsSet",540,null,[]],["TargetsSet",540,null,[[["jobs é","jobs é"],"gpu_type é",106.75],[["jobs é","jobs é"],"gpu_type é",106.75]],"solver é","status é"],["SizesSet",540,null,[],66.125,67.0],["SizesSet",540,null,[["job_id é",1073,967],["job_id é",1073,967]],66.125,67.0,39.0,"status é"],["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["JobReshaped",540,"job_id é",[],["rule é"]],["JobReshaped",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"]],["WaitReasonChanged",540,"job_id é",["checkpoint_stays"]],["WaitReasonChanged",540,"job_id é",["checkpoint_stays",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","checkpoint_stays","rule é"],["PlanRejected",540,"job_id é","checkpoint_stays","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],"cause é","by é"],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619,"cause é"],["GangRejected",540,"job_id é",774,"checkpoint_stays"],["GangRejected",540,"job_id é",774,"checkpoint_stays",[["conflicts é",965],["conflicts é",965]],"cause é","detail é",893,553],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447,[["node é",855,1073,967],["node é",855,1073,967]]],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375,[["job_id é",841],["job_id é",841]],["change é",["models é","models é"],"gpu_type é"]],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]]]');
INSERT INTO "frames" VALUES(91,30,540,1,X'A7E93E23DDED21565876E064FD05D384108812F104C247E7EA9096650C50C15E','[["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"],true,true],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true,true,1086],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767,["nodes é","nodes é"]],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never",["nodes é","nodes é"]],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767,["nodes é","nodes é"]],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767,["nodes é","nodes é"]],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767,["nodes é","nodes é"]],["TurnStarted",540,"job_id é",767,[]],["TurnStarted",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],66.125,836,true],["TurnEnded",540,"job_id é",767],["TurnEnded",540,"job_id é",767,839,["nodes é","nodes é"]],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551,["nodes é","nodes é"]],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777,"cause é"],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839,1303,638],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767]]');
INSERT INTO "frames" VALUES(121,18,540,1,X'180AAFFF633DD2F757A6AD32DBD9E7C878F9ECB7EA4A34838714A59DE5435299','[["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é",["nodes é","nodes é"]],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["AllocationLearned",540,"job_id é",767,[]],["AllocationLearned",540,"job_id é",767,[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],["ReshapeRefused",540,"job_id é",767,[],[],"cause é"],["ReshapeRefused",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],[["node é",855,1073,967],["node é",855,1073,967]],"cause é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[],841,757],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[556,556],841,757,1052]]');
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(138,X'180AAFFF633DD2F757A6AD32DBD9E7C878F9ECB7EA4A34838714A59DE5435299',1);
CREATE TABLE job_index (
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    names BLOB NOT NULL,
    PRIMARY KEY (first_seq)
);
CREATE TABLE meta (
    name VARCHAR NOT NULL,
    value VARCHAR NOT NULL,
    PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('terms','[[1,1]]');
INSERT INTO "meta" VALUES('event_fields','2b5435afe77b7e3e1c6577d146bcc084d6497fadc49cd0cdb5edae24b4327c85');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','a78d932627bda4113db0627736ae88902169f741dce7a41c3c94e7147e387afa');
CREATE TABLE outcomes (
    seq INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    pairs BLOB NOT NULL,
    PRIMARY KEY (seq)
);
CREATE TABLE past_jobs (
    seq INTEGER NOT NULL,
    job_id VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE (job_id, seq)
);
CREATE TABLE past_keys (
    seq INTEGER NOT NULL,
    "key" VARCHAR NOT NULL,
    job_id VARCHAR NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE ("key", seq)
);
CREATE TABLE past_upto (
    seq INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    digest VARCHAR NOT NULL
);
INSERT INTO "past_upto" VALUES(0,0,'806d8da2d7991a33b74ff6a9c1860979');
CREATE TABLE segments (
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    digest VARCHAR NOT NULL,
    frames BLOB NOT NULL,
    PRIMARY KEY (first_seq)
);
INSERT INTO "segments" VALUES(1,60,X'3DA5C8C982047A5034C77E8337C16AF38260736A4D3FCAAAFA7CE3FF454E2E64','e5066ef13bebaacec6b3bf15a4fe98493513002fee653fd99f323a3eef1b0442',X'789CB555CD8EDB3610BEF7290A9D8985249222750C36698220289A757A320C83A6282F63597429CA80FB467D8EBE5887FAB165AFD6D2A6EDC1C688F3CD374372F8CD324238449484284201C942998739A1428532CA37398B4994609CB238A382C6318F9450394E481A2629619C8B94E3248E05CB5998D160F5D372192CE4B3CAEA42D98513D6A92C68E8CBBA28100123382A5B6953FEFCF75F010A0EA6D0F234B4D7433F89180AA42973BDF5DF2BF4BFD223A83ED35B55B9AA0D197CF8D4AFFA56C052D4955376ADB3C6ED6CAD7CC86343FEF82CCAED55A95759575385CE660A76EAD4D5D75BF3C80B23770BA70E872B6E4A9269EF426DF7AA740B258A2B77CA12C493B03FA9F3FDBD117EB96E73933F90A2AED49B811F8E90BEFA622A37923D8A78381BF4ABC9D4BB2CBBCE55C2627719A5D8B766B03DD46B773AB45F84B0D5BF0B4751C8304A13E85E2BE4AE6B48B317BAECFBB8EB47B029C1C08F9B9423AB2B6F53B029744AA68E5AAAAEA7DB0ADF5B601DAF710604059BD310FA04576BEC7DBA7B985BBEDF4BAB847C169B42DDA39C097BFACF40379D33DB7FD3AB6DBEBD394E9DD85DC8C743FDB5165694EED56BC2389E8FBC291282EE5ED9857B120603040F2712CE04955CA63C0E091334C44432A638C64C4689C8318F137809892019CEA51022174C2A9CC308232A560969271264AEBE899D2A47F3724ABBF2EE8306BB3EBF3F1FF8B5364E8CE8F21FB5AACF67340902CA14D4257A08010D696C27E367B379909FCD66516FF6DA9D075FF0DD6CFAA1B39C83F1F2D1B0B6FC9702823D6CB6E86AA1318AE230BE084D84FBF278CA214B2F49D5B542F52367A05DD6D4874ED1A4D9EF4599758D7EF9F0CAA3AD92D01CED98E289575AC8B34C0841F0838DF5D60AF497A45EE306DB0A44796A0EFAC59A873372258951943E2431BD12C47EED32CAFD1A7F806B2FD5D17FC5187A80D287189684B5A2AD94C56933EC11839297CB65447984FC1FE44D5997666C152C9A7AB25C1495F255A6CC0B70561FD41A86772FE4AA3C6A6B4A3F33DB5DDD2CF85D4C62562D13B0B77EA7F7CAD4AE0B7EB9DC37D293FA0EB732D647018C5BB93B185DBA75E5C4A90A7E200425114684467EDF4EE8A2DF0FD07C52C54B8A7BBE7E3220CEF1B99442896AA49429FF70CA34B84AFF3906F3937C1AF282CD593D0665099B0FF9CD6A63B53B5D69CA100ACFF40DD0F3E95DDE6B17FDD17FBF1AFAC3F09B437914A554C5930239AAC69A6726EC956D7C83BEFEA241129BD93D7A042C7C13106AF94597BA1AC34CF911C7698F81A61F7F2AC3013B0B8852C207CCED498DC54C0286A49E70F50F547EA72B');
CREATE TABLE snapshots (
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    state BLOB NOT NULL,
    memory BLOB NOT NULL,
    PRIMARY KEY (seq)
);
INSERT INTO "snapshots" VALUES(60,540,'3:5ccf7076cca7d70d70599d1521ca881610d16a1e6b2655b85527880eabac35e8',X'5B227374617465225D',X'5B226D656D6F7279225D');
CREATE VIEW events (seq, at_us, kind, job_id, payload) AS
SELECT frames.first_seq + event."key",
       json_extract(event.value, '$[1]'),
       json_extract(event.value, '$[0]'),
       json_extract(event.value, '$[2]'),
       (SELECT json_group_object(field.name, event.value -> field.position)
          FROM event_fields AS field
         WHERE field.kind = json_extract(event.value, '$[0]')
           AND field.position < json_array_length(event.value))
  FROM frames, json_each(frames.payload) AS event;
COMMIT;
