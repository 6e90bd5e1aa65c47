BEGIN TRANSACTION;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
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
INSERT INTO "event_fields" VALUES('AttemptEnded',8,'unused_us');
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
INSERT INTO "event_fields" VALUES('JobSuspended',7,'exit_code');
INSERT INTO "event_fields" VALUES('JobWarned',3,'attempt');
INSERT INTO "event_fields" VALUES('JobWarned',4,'text');
INSERT INTO "event_fields" VALUES('JobWarned',5,'step');
INSERT INTO "event_fields" VALUES('JobWarned',6,'nodes');
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
INSERT INTO "frames" VALUES(61,30,540,1,X'9179DACD50443489F7E29F5B5391C1DA69570D7402C0673A3822A663E5E65A32','[["RoundPlanned",540,null,649,752,427],["RoundPlanned",540,null,649,752,427,"wake",[[[447,"queue é",1073,967,["gpu_types é","gpu_types é"],"cluster",[[644,644],[644,644]],true,true,true],["gpus_quarantined",613,418,["blockers é","blockers é"],"detail é"]],[[447,"queue é",1073,967,["gpu_types é","gpu_types é"],"cluster",[[644,644],[644,644]],true,true,true],["gpus_quarantined",613,418,["blockers é","blockers é"],"detail é"]]],"fault é",["consolidated é","consolidated é"],["spread é","spread é"],["admitted é","admitted é"],["dismissed é","dismissed é"]],["TargetsSet",540,null,[]],["TargetsSet",540,null,[[["jobs é","jobs é"],"gpu_type é",106.75],[["jobs é","jobs é"],"gpu_type é",106.75]],"solver é","status é"],["SizesSet",540,null,[],66.125,67.0],["SizesSet",540,null,[["job_id é",1073,967],["job_id é",1073,967]],66.125,67.0,39.0,"status é"],["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["JobReshaped",540,"job_id é",[],["rule é"]],["JobReshaped",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"]],["WaitReasonChanged",540,"job_id é",["gpus_quarantined"]],["WaitReasonChanged",540,"job_id é",["gpus_quarantined",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","gpus_quarantined","rule é"],["PlanRejected",540,"job_id é","gpus_quarantined","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],"cause é","by é"],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619,"cause é"],["GangRejected",540,"job_id é",774,"gpus_quarantined"],["GangRejected",540,"job_id é",774,"gpus_quarantined",[["conflicts é",965],["conflicts é",965]],"cause é","detail é",893,553],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447,[["node é",855,1073,967],["node é",855,1073,967]]],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375,[["job_id é",841],["job_id é",841]],["change é",["models é","models é"],"gpu_type é"]],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]]]');
INSERT INTO "frames" VALUES(91,30,540,1,X'722C141E4E92CA9C8D0A2E95402729923667A243726A20A5773721F9E8C3068F','[["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"],true,true],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true,true,1086],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767,["nodes é","nodes é"]],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never",["nodes é","nodes é"]],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767,["nodes é","nodes é"]],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767,["nodes é","nodes é"]],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767,["nodes é","nodes é"]],["TurnStarted",540,"job_id é",767,[]],["TurnStarted",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],66.125,836,true],["TurnEnded",540,"job_id é",767],["TurnEnded",540,"job_id é",767,839,["nodes é","nodes é"]],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551,["nodes é","nodes é"]],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777,"cause é",948],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839,1303,638,987],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767]]');
INSERT INTO "frames" VALUES(121,20,540,1,X'63B72533A939ED84A747B50BFA8E7F4AC46F243AB3DA3970B2F8E064FB77C231','[["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é",["nodes é","nodes é"]],["JobWarned",540,"job_id é",767,"text é"],["JobWarned",540,"job_id é",767,"text é",444,["nodes é","nodes é"]],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["AllocationLearned",540,"job_id é",767,[]],["AllocationLearned",540,"job_id é",767,[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],["ReshapeRefused",540,"job_id é",767,[],[],"cause é"],["ReshapeRefused",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],[["node é",855,1073,967],["node é",855,1073,967]],"cause é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[],841,757],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[556,556],841,757,1052]]');
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(140,X'63B72533A939ED84A747B50BFA8E7F4AC46F243AB3DA3970B2F8E064FB77C231',1);
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
INSERT INTO "meta" VALUES('event_fields','3be3c42bd1cec3167b986cc85743b500059fa5940b35b15799084f1ddcd271d8');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','82c1414f12f26fcfa1c30e0da86f171fab3b2354779f505bf2af1ab9236b179f');
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
INSERT INTO "segments" VALUES(1,60,X'1D08853F7EBC705B1581EC4711F9258DAD25BE5A6158A6BDBA96518442C9019F','51b1539f8ea8b9561e8a04a837e6db2df0e614081d8d54e0876d15464b2f8096',X'789CB555DD8EAB3610BEEF53545C5B2B0C36B62FAB6D7BAAEAA8EAD99C5E45283260B23E4B4C8E8148E91BF539FA621DF39340960DEC697B91C8F67CF3CD8C3D7CB3C528F411253EC2C823999FE67E4EA8547E8AF3246701C151180A166454D220E05849958711117E2408E35C0A1E46412059CEFC8C7AF177DBADB7499F55D614CA6E6A696B95792DBD698A0211587827652B5D9AEFFFFECB43DEB12C747A1EAF77633BC10C79696972BD77FB18FDAFF408B2CFF45E5575D5B98C362EF49BB618588AA6AA95DDE9AC35D7B651CEE5B1257F7C96663F497512355E4A743593F7A2CE7D7EC36A1D7951A62F9B5A1D8F136E4AA265EB46ED0FCAD41B258B8959B008F1C81F6EEAF27EEF845F9FBBBC89EFA5B2A9D4BB813F9D207CF5B1ACEA99E818737F35E8B732533F64D9349681C3FE318C3C744B6F7F6C76F5F9D8ED0861F1BF7347D86721121174AF95E94BDF90E5416A33F471DF8FB0A62404FEB00D39731ABB358535854EC9D449A7AAEFE92EC31F2DB0CEE7B80282BCE43C863EC1D396F63EDD3DCC2DDF1FC62A993ECBA450F72857C29EFE33D04DE7ACB6DFF46A17EF509E966EEC2EE4C3B1F9D4482B4DFDE6338561B01E79932438DD7DB22BF7220C0648389E4838F339A761CE5492329F2698C2084A09C3381701E599CC029A282A2330C828C91229228A3921412A7C2CF26E2241E4EAB37C5166362EA7B44FEF3E6854F5E5FB738E9F9AB29633BAFCB551CDE58E16414029405DF0830F6808637B19BF2CDB0FF2D732D934C941D797C1E77D299361E86CD7609C7CB4AC1DFF3501EF00C5167D2E344038F083ABD0E070488F0B0E510649AAA60A358C9C9176D9B239F68A969687833459DFE8D78D531E6D550ACDD18D291E39A58538DB8810043F286C58C5A0BF44388D1B95E549736E2FFAD59983333291448CC54314D089200E67D751EECEF8033CBB5127B70B42E8014A1F023892D6CA2E53168876D82306296FB75BD7A1C8FD415CC1FA3073A7B0A2C291E5B2A894CB523027C05973543B18DE83902B73D2B6346E667655DD1CB82A163171C704EC9DBDD607553675EFFCFA7868A427F5055E65AE8FDC8B57BBAF23B1F8061714E110118A5DDDB5D4C5500FD0FCA28AD714F76CC364409C8797540A25AB995496ECE329D3E22AFDE71CCC4DF265C82BB6DAEA39288BD87AC8EF569756D7E789A68CA1F099BE037AB9BDEBF7DA7B7F70FB375DBF197E73298FD2A4AA78522047D55CF3AC84BD51C667E8EB8F1A24B19DDDB357C0FC770121979FB5D1D51C66C98E7828060C34FD6C199301BB0A8804E123E6EEA6E67C160163524718FF034FFDA69C');
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
  FROM frames, json_each(
       CASE WHEN typeof(frames.payload) = 'text' THEN frames.payload
            ELSE json_extract('[]', 'this log is compressed: ask it by `shunter log sql`, not ' ||
                                    'by sqlite3 (frame ' || frames.first_seq || ')')
       END) AS event;
COMMIT;
