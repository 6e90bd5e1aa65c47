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
INSERT INTO "event_fields" VALUES('ClockStepped',3,'by_us');
INSERT INTO "event_fields" VALUES('ConfigChanged',3,'config');
INSERT INTO "event_fields" VALUES('ConfigChanged',4,'keys');
INSERT INTO "event_fields" VALUES('ConfigChanged',5,'policy');
INSERT INTO "event_fields" VALUES('ConfigChanged',6,'policy_version');
INSERT INTO "event_fields" VALUES('GangApproved',3,'version');
INSERT INTO "event_fields" VALUES('GangApproved',4,'choice');
INSERT INTO "event_fields" VALUES('GangProposed',3,'version');
INSERT INTO "event_fields" VALUES('GangProposed',4,'candidates');
INSERT INTO "event_fields" VALUES('GangRejected',3,'version');
INSERT INTO "event_fields" VALUES('GangRejected',4,'reason');
INSERT INTO "event_fields" VALUES('GangRejected',5,'conflicts');
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
INSERT INTO "event_fields" VALUES('SuspendEscalated',3,'attempt');
INSERT INTO "event_fields" VALUES('SuspendEscalated',4,'mode');
INSERT INTO "event_fields" VALUES('TargetsSet',3,'targets');
INSERT INTO "event_fields" VALUES('TargetsSet',4,'solver');
INSERT INTO "event_fields" VALUES('TargetsSet',5,'status');
INSERT INTO "event_fields" VALUES('TimeLimitReached',3,'limit_us');
INSERT INTO "event_fields" VALUES('TrainingStarted',3,'attempt');
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
INSERT INTO "frames" VALUES(61,30,540,1,X'2EE13E0C9CB275318935CE2B352B78F9DEB87127E7E93BB392900F0849CCD75B','[["TargetsSet",540,null,[]],["TargetsSet",540,null,[[["jobs é","jobs é"],"gpu_type é",106.75],[["jobs é","jobs é"],"gpu_type é",106.75]],"solver é","status é"],["SizesSet",540,null,[],66.125,67.0],["SizesSet",540,null,[["job_id é",1073,967],["job_id é",1073,967]],66.125,67.0,39.0,"status é"],["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["JobReshaped",540,"job_id é",[],["rule é"]],["JobReshaped",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"]],["WaitReasonChanged",540,"job_id é",["gpus_taken"]],["WaitReasonChanged",540,"job_id é",["gpus_taken",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","gpus_taken","rule é"],["PlanRejected",540,"job_id é","gpus_taken","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]]],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619],["GangRejected",540,"job_id é",774,"gpus_taken"],["GangRejected",540,"job_id é",774,"gpus_taken",[["conflicts é",965],["conflicts é",965]]],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375,[["job_id é",841],["job_id é",841]],["change é",["models é","models é"],"gpu_type é"]],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75,"reason é",[["job_id é",841],["job_id é",841]]],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"],true]]');
INSERT INTO "frames" VALUES(91,30,540,1,X'CDD52AA64FFCDD1EBA8C8CB9C5135F9DC296D8F6DE1FA23254FA6F30BCF211FB','[["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true,true,1086],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never"],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767],["TurnStarted",540,"job_id é",767,[]],["TurnStarted",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],66.125,836,true],["TurnEnded",540,"job_id é",767],["TurnEnded",540,"job_id é",767,839],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777,"cause é"],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839,1303],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125]]');
INSERT INTO "frames" VALUES(121,14,540,1,X'9836FD45CDD7300FA38399CAB679E977C8619379E3DCA663DD13BC67981EC76B','[["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é"],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["AllocationLearned",540,"job_id é",767,[]],["AllocationLearned",540,"job_id é",767,[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]],["ReshapeRefused",540,"job_id é",767,[],[],"cause é"],["ReshapeRefused",540,"job_id é",767,[["node é",855,1073,967],["node é",855,1073,967]],[["node é",855,1073,967],["node é",855,1073,967]],"cause é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473],["SensitivityCorrected",540,"job_id é","model é",447,1073,967,106.25,106.75,1579,1473]]');
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(134,X'9836FD45CDD7300FA38399CAB679E977C8619379E3DCA663DD13BC67981EC76B',1);
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
INSERT INTO "meta" VALUES('event_fields','101aace9bef77b5f1a685c735442b5ad21800f5e961449de081fd8afc6789531');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','76956a021a61f06c9b1a9265b08c5b39a55ef7357a501fc91f45dfff61c329cf');
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
INSERT INTO "segments" VALUES(1,60,X'3D6455E256C82B9DFC991F51C5311AAC2FF36E6C6AF435AB2F8B77BBE3A607B5','61cbb664a888a16df6c1ea36d1a79af890a079a1b7b530cbf792bdda9bc2df9f',X'789CD557DD8EA33618BDEF53545C5B230CD8C697ABA9BA55B5AA7693ED5584220326C30E31299854E91BF539FA62FDCC3F0913C8EEF6A21A8D64FB3B3EFE6C7F3E27EC30726D443C1B6164610E7F2E67C2634E18519E1091C498DB491486B12D086792702C9970318E05B6134E7C6163DB0B23C61D5F58C10FBB9DB58D5E645C65B2D86A5168195B35BDAAB20C79D0B0CEB228D35CFDF8CFDF16B24E79964697717B3F8E7B98212BCA55921E4C3F40FF293D82ECE3F4204B5D3653461DB3F49BB10058B2AAD4B2D8A7711DD64525CD94E79AFCF945A8C324D5C9AAC152A2AB99AC577969F3EB5AEBC8B33C7ADD6A793A4DB8894797A35B79384AA5B7526493306714F9D4EE4EAABFBF07E1C375E757EB5B91A84AF930F0B73C96EFE2788A5030D81EA112C7A6691D4ED55E5F4E4DCFF358F06DD311B6998B38859A2B44F4DA96517E14A9EAAAAFAD226813CF057EB75E726634306D026D02F71BCB731AC9B6129B0C7F2A80753EC71510648597317403179217F7E9EE61AEF97E578514D18B0833798F72256CF3DD401FF2527F4D7CA6C236F2989F974EEC2EE4FDA9FA54894228FDE635B9AEB31E7995244CBA7B6503F74A58F959BC4A350BF20959051AA5D83F96004CC51DBB941B538F10E9101AF94EC8E324E21C270447046C4988C84912974A1A5191782E11A193F8216361285D416D1692C6A53E55B916336AFA4725ABFE8C1641902507D9C24F36A021F3A215DFBE593FC85FF3705B85C754F776657DC9C3CE2A766B30463E6AD6867F48C03AC2F9656D2EC441D8B19D4168C0CDDBF47CEEC32A9D24955385EA8C62A45D455E9D5A458BF2E351A8B82DF4A16394272D6404C5D1988B4F8D84C33A3BEA7908FE61635D2B40187BDC68DC685B965097FAA06FC60C9C791349C4983F51874C04B11B1B0CD88CF94F50494A9E4DCF71A1AC087972604814856832650EAF2D1A314ACD529C19158DAB93DC836F766A2CD5392D7265ECAA49ED6AC0A4B288091A26606FE23A3DCABCD2EDE4DBE1AE1A36F20B1CED5C31986B2BF7BA7E480F8111C52EF208367BD522CDBA3D00C12F32BB9D7C2FD6493AF27DB74F2293A29C4962293EB6871A57A67FCDC18C052F436ED87491CE411965EB211F8B342F527D9988C1180AEFEB01687F7AC3436B67BF37FD37A77E35FCEA509E858A64B691A023E55CD9AC84BDB18DCF50CB1F52D0B2DA74678F80D90F0121979F5395967398A538F25DDE61A0E867B73171C65540C43D7FC4DC9CD4DC9C45C098B425DCE4958A3F66424DED9C828032D078CF61EB50C8FA131EBED1B2C640C6BED53AC4A2270C3F3E6755BD56D1EE6BE7466BB0319DD07C3EF4D638EE051325324AF97F4813BA89A832DDDBA32AE1A32A165AF61E391D316B9627F82DDBC6873690FD0BACCE24BA');
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
