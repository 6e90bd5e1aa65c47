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
INSERT INTO "frames" VALUES(61,30,540,1,X'A6661817132E65BA8F51F8CFC3C482CD73C763B32964B728570FEF6D5B21D5BC','[["RoundPlanned",540,null,649,752,427],["RoundPlanned",540,null,649,752,427,"wake",[[[447,"queue é",1073,967,["gpu_types é","gpu_types é"],"cluster",[[644,644],[644,644]],true,true,true],["proposal_rejected",613,418,["blockers é","blockers é"],"detail é"]],[[447,"queue é",1073,967,["gpu_types é","gpu_types é"],"cluster",[[644,644],[644,644]],true,true,true],["proposal_rejected",613,418,["blockers é","blockers é"],"detail é"]]],"fault é",["consolidated é","consolidated é"],["spread é","spread é"],["admitted é","admitted é"],["dismissed é","dismissed é"]],["TargetsSet",540,null,[]],["TargetsSet",540,null,[[["jobs é","jobs é"],"gpu_type é",106.75],[["jobs é","jobs é"],"gpu_type é",106.75]],"solver é","status é"],["SizesSet",540,null,[],66.125,67.0],["SizesSet",540,null,[["job_id é",1073,967],["job_id é",1073,967]],66.125,67.0,39.0,"status é"],["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["JobReshaped",540,"job_id é",[],["rule é"]],["JobReshaped",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"]],["WaitReasonChanged",540,"job_id é",["proposal_rejected"]],["WaitReasonChanged",540,"job_id é",["proposal_rejected",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","proposal_rejected","rule é"],["PlanRejected",540,"job_id é","proposal_rejected","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],"cause é","by é"],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619,"cause é"],["GangRejected",540,"job_id é",774,"proposal_rejected"],["GangRejected",540,"job_id é",774,"proposal_rejected",[["conflicts é",965],["conflicts é",965]],"cause é","detail é",893,553],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447,[["node é",855,1073,967],["node é",855,1073,967]]],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375,[["job_id é",841],["job_id é",841]],["change é",["models é","models é"],"gpu_type é"]],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]]]');
INSERT INTO "frames" VALUES(91,30,540,1,X'C4F1FABA663120CC91AFBAC8E2DC5AB3F48AD7EF63EE6D68A7DB0877B4C526CC','[["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"],true],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true,true,1086],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767,["nodes é","nodes é"]],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never",["nodes é","nodes é"]],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767,["nodes é","nodes é"]],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767,["nodes é","nodes é"]],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767,["nodes é","nodes é"]],["TurnStarted",540,"job_id é",767,[]],["TurnStarted",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],66.125,836,true],["TurnEnded",540,"job_id é",767],["TurnEnded",540,"job_id é",767,839,["nodes é","nodes é"]],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551,["nodes é","nodes é"]],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777,"cause é"],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839,1303],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767]]');
INSERT INTO "frames" VALUES(121,18,540,1,X'3DD27F956B2FE819329EEB179EE84D8B88F00A6012FCAD3EFF6E59CE47DE785D','[["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é",["nodes é","nodes é"]],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["AllocationLearned",540,"job_id é",767,[]],["AllocationLearned",540,"job_id é",767,[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],["ReshapeRefused",540,"job_id é",767,[],[],"cause é"],["ReshapeRefused",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],[["node é",855,1073,967],["node é",855,1073,967]],"cause é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[],841,757],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[556,556],841,757,1052]]');
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(138,X'3DD27F956B2FE819329EEB179EE84D8B88F00A6012FCAD3EFF6E59CE47DE785D',1);
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
INSERT INTO "meta" VALUES('event_fields','f732c2671645b18c7718a6e5aa3c1cb551b35ee0372ac6f3a49a39f52ff9ed8f');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','6f7257ba09028d5a478aed506ea4771d889de535309a1d0957ab26e5ec3ca386');
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
INSERT INTO "segments" VALUES(1,60,X'E16E73D0C1FABE7C4006A8433897572DCE6F4E4006D5BF42CF64B19816689611','c1347d7be66a57608e2dfe22e7ab9513a607bf69c0cdfe59e7d89aa0f4157367',X'789CB555CD8EE3360CBEF7290A9F858165EBCFC7C5B4DDA25814DDC9F614048162D319EF38562ADB01D237EA73F4C54AF927B1339ED8B36D0F0928F2E34752A2C93525A14F38F309251E4BFC38F553C635F8314D77A90C18156118C920E19A0781A2A0210D058B7C1131A9948E54288240CB54FA09F736DFADD7DE2A7E86A4CEC1AE2A6D2B48BC86BEA8F39C3014BC13D83233C5F77FFFE511EF68F22C3E0FE5EDD0CEA8245E6C8A34DBBBF386FCAFF404B34FB23D9455D9BA0C0E2EF49BB60DB2E4755981DD664963AE6C0DCEE5B1217F7CD6C57E94EA28EA662ED1C54CDE0B9CBBFC7A6919796EE2975505C7E3889B33316F5DC1FE0045B5029D8FCC91144409BFBFA9CBFBBD137E7D6E7313DF8B755DC2BB813F9E307CF9C994D544744A95BF18F4AB49E043928C6315A8EC1EA3D08756F4F6C77A5B9D8FED8931B9F977EE84FA322491C0EEB53A7EE91AD21C7456F47DDCF523CA9C85C81F362127B41B27739439764A02A72C86AEA7DB0C7FB0C83A9DE30208F176E721F4099FD6D8FB74F730B77CBF171674FCAC7739DCA35C087BFACF40379DB3D87ED3AB6DBC8339CDDDD85DC8C763FDB9D65617D59BCF1486C172E44D92E874F7C9AEDCB3305C20E17023011520C3C46D23BD031933DF175AB1305491E4B89562102903A74DF82E65419C0AB6A391A242A84850DA6E248C5C7ED12F504CC6559C77E9DD070DAABE7C7FCEF1736D2A3D3197FFA8A1BEDCD12C0829239C2EF4C1473486B1DD18BF88CD07F98BD9ADEADD21AB2E8BCFFB6A76FDD2592FC1B8F1D1B0B6FCD704BC03169B77B9F080D0C00FAE8386867D7A2A5218A51F49E57842F52B6730BBACA98FDD448BCDE1A08BA46BF4EBC14D9ECC428CCDD1AE2925DCA4C5386BC118C11F16D64B1B9CBF2C72336E5096A78B7373D1AF740E2ED96824521A3D88808F0662AFBBAE72A7530FF8EC059CDC2908B107387F0850A5ADD56DA632889A654F24A6BC5EAF295794B83F8C1BC92ECC9416251E39B254E725B82C23E90670521F618BCBBB1FE4509C326B0AB733DBAA6E14AE8A59CCA66542F6D65E65073075D539BF56F78DF4045FF155A6FAC83B5A7334A5CEB7B6C77C8B0F1134248C535779A5B3BCAF08797E86FC35C73D5BBF1B8852E125971C743991CB9C7DB8671A5C99FD390573BB7C1EF28AADB2D914540AB91CF29BCD8CCDAAF368AA0CA1F8A1BE037AB9BDEB17DB797F74E7375DBF197E73298FBA88217F021C48E554F72C84BD51C617ECEC4F190EC5667B4F5E81F4DF05C45C7ECA8AAC9CC2CCD9890AA31E834D3F59C668C52E029288A901737B53533EB38021A923DCFC03A33BA727');
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
