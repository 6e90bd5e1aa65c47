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
INSERT INTO "frames" VALUES(61,30,540,1,X'F36ED3241E1F6CA9AA757E6A158800DF212847DBDFD30A9BF313F2E07DEE975F','[["TargetsSet",540,null,[]],["TargetsSet",540,null,[[["jobs é","jobs é"],"gpu_type é",106.75],[["jobs é","jobs é"],"gpu_type é",106.75]],"solver é","status é"],["SizesSet",540,null,[],66.125,67.0],["SizesSet",540,null,[["job_id é",1073,967],["job_id é",1073,967]],66.125,67.0,39.0,"status é"],["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["JobReshaped",540,"job_id é",[],["rule é"]],["JobReshaped",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"]],["WaitReasonChanged",540,"job_id é",["proposal_rejected"]],["WaitReasonChanged",540,"job_id é",["proposal_rejected",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","proposal_rejected","rule é"],["PlanRejected",540,"job_id é","proposal_rejected","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],"cause é","by é"],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619,"cause é"],["GangRejected",540,"job_id é",774,"proposal_rejected"],["GangRejected",540,"job_id é",774,"proposal_rejected",[["conflicts é",965],["conflicts é",965]],"cause é","detail é",893,553],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447,[["node é",855,1073,967],["node é",855,1073,967]]],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375,[["job_id é",841],["job_id é",841]],["change é",["models é","models é"],"gpu_type é"]],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"],true]]');
INSERT INTO "frames" VALUES(91,30,540,1,X'5D70834C2E09CCDCB1A757EA565A1C54B2DE10AF83D7A904C80B896F7421E59E','[["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true,true,1086],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767,["nodes é","nodes é"]],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never",["nodes é","nodes é"]],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767,["nodes é","nodes é"]],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767,["nodes é","nodes é"]],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767,["nodes é","nodes é"]],["TurnStarted",540,"job_id é",767,[]],["TurnStarted",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],66.125,836,true],["TurnEnded",540,"job_id é",767],["TurnEnded",540,"job_id é",767,839,["nodes é","nodes é"]],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551,["nodes é","nodes é"]],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777,"cause é"],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839,1303],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125]]');
INSERT INTO "frames" VALUES(121,16,540,1,X'6A752E422126C5852892942ED6F293F0D185711755DA4CFED15D6981934FEF39','[["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é",["nodes é","nodes é"]],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["AllocationLearned",540,"job_id é",767,[]],["AllocationLearned",540,"job_id é",767,[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],["ReshapeRefused",540,"job_id é",767,[],[],"cause é"],["ReshapeRefused",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],[["node é",855,1073,967],["node é",855,1073,967]],"cause é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[],841,757],["ToleranceLearnt",540,"job_id é","model é","gpu_type é","cluster",[556,556],841,757,1052]]');
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(136,X'6A752E422126C5852892942ED6F293F0D185711755DA4CFED15D6981934FEF39',1);
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
INSERT INTO "meta" VALUES('event_fields','0eda912523abf6c3cc73797208d35eeb6966019e7fd7464cf66e331556a473ab');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','5fbe33b6312bceb9bc5dc5249d3d7d858860d10dfb65e5f635f7c9baa0f1caf0');
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
INSERT INTO "segments" VALUES(1,60,X'D1E5124471484F2BC8E8FCC5421C03BED304429C5C780369D803C5DC3F566A1B','2e441a135b01b26b1959792e9f2973da4086f3224215270c2ed4b9f753973afa',X'789CD557DD8EA33618BDEF53545C5B230C36E0CBD554DDAA5A55BBC9F62A8A2263CC0C3B605303A9D237EA73F4C5FA99BF408624CCB4BDA84613D9FE8E8F3FDB1FE7C00E23DF4594B808230733F8F359C849E8C5226029E56982999B8A384E5C4E592829C332E43EC609C76ECA68C45DEC925884CC8BB8B3FF6EB773B6E259264D2ECDB6E6A69689D3D2AB26CF1181867394A6CAB4FAFEAF3F1DE4943ACFC469DA3E4CE30487C8115AA5D993EDEFD17F4A8F20FB247B92555D7553261DBBF4D5D81E58F2A6AAA53964491BAE4D23ED94C796FCF199ABA759AAB355F7F7125DCDE4BCC8539FDFD05A479E6BF1B2AD6559CEB82909EE47B7F2A990AADE4A9ECFC22C0C5014B8C3498DF7F746F8F9BAF5C5FA8EE04D25DF0CFC4527F24392CC110A06FB2354BCE89ACE53D91CEA53D9F50809F7FF6C3AC26EE8231640CD192E5EFA32D205CFD4507D7D15419B121FF8FD76C985D1BD6D536853B8DF441E3321FB4AEC32FCC100EB728E2B20C8894F53E8062E449BDB74B730977CBF2A23B978E6712E6F51AE846DFE35D0275DD5EF892F54D84616FA78EFC46E423E96CD97861BAEEAABD7E4FBDE7AE4459230E9E6959DB957C2AAAFFC45AA455044E92AD024C5F161D983A9F853974AB0A4D883E7099388A46054918C522128F1B070FD5826BE4B88C7041561E4FA014BE057D044F8290D028EE3CEA5BE34BAE60B6AFA5B239BF18CEE82204B06B2851F5C4043E6A617DFB1D93E903FEB78DBC445568F76E57CD3F16015BB35182B1F2D6BC77F4EC029E0FCF23E17EA21ECB9DE5968C0CDFBF42216C12A83245573851A8C62A25D463765AF6842170557495FE8E78E559ECC4801C5D1994B145809877576012108FE6163436B8F3026CC6ADC645B0E57A7F6A05F8D597848669288317B083C3A13C461EC6CC0762C7A804A52F2687B9E0F6545E9830743DC18DE651A7AACB5681442CABBDD0ED30823FB03EBB2B05F6669145A9459B294E795B459B2D00A70D294F200963B08B954C7CC68659DAEDBD5C580DDC55DCCBE6302F62E5E6785D44DDD4F7E3D3C14D2467E835B59AA23A734BAD415CF0F66C0BC670E0AB08F08B50FA3AC79960F3B029E9F64FE9AE3566CF0061445FE984B2E79B590CBBDF8D4675A5C95FDB104B35E7E1FF28AAD36D912340CC2F590CF26D326AB4F33559942E1417D03743CBDF313DBCFFE68FB57A7BE1B7E71288F5C09996F240852B5543D2B6157B6F1152AFB5306A2D8BAF7E21184EE9B8090CB8F99CAAA25CCBD388A7C3660A0E817B731B3D85540C4483461EE4E6A69CE5DC094B427DCE846259F73AEE6EF05012871086641BC701D0A39BF836F5B65EB9C686A80BDD5DC3597F35BECA23DB4723CFED8B4AEE90EB64E16DB6F92D16FA7BDFD4C95AC86FEDF52866ECA9BBC1EFD5755F0D596F05A8E263C1FB14B5725BC2CF7F173DB4678D2BD56F4F63AE9751FB5559155D5109E752195BF0148E058F5');
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
