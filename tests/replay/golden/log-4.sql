BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE event_fields (
	kind VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	PRIMARY KEY (kind, position)
)
 WITHOUT ROWID

;
INSERT INTO "event_fields" VALUES('AllocationChanged',3,'allocation');
INSERT INTO "event_fields" VALUES('AllocationChanged',4,'because');
INSERT INTO "event_fields" VALUES('AllocationChanged',5,'instant');
INSERT INTO "event_fields" VALUES('AttemptEnded',3,'attempt');
INSERT INTO "event_fields" VALUES('AttemptEnded',4,'exit_code');
INSERT INTO "event_fields" VALUES('AttemptEnded',5,'ended_us');
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
INSERT INTO "event_fields" VALUES('JobCancelRequested',3,'by');
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
INSERT INTO "event_fields" VALUES('JobRejected',3,'reason');
INSERT INTO "event_fields" VALUES('JobRejected',4,'needed');
INSERT INTO "event_fields" VALUES('JobRejected',5,'most');
INSERT INTO "event_fields" VALUES('JobRejected',6,'detail');
INSERT INTO "event_fields" VALUES('JobReleased',3,'by');
INSERT INTO "event_fields" VALUES('JobResized',3,'gpus');
INSERT INTO "event_fields" VALUES('JobResized',4,'by');
INSERT INTO "event_fields" VALUES('JobRetried',3,'attempt');
INSERT INTO "event_fields" VALUES('JobStopped',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSubmitted',3,'spec');
INSERT INTO "event_fields" VALUES('JobSubmitted',4,'duration_us');
INSERT INTO "event_fields" VALUES('JobSubmitted',5,'dedupe_key');
INSERT INTO "event_fields" VALUES('JobSubmitted',6,'environment');
INSERT INTO "event_fields" VALUES('JobSuspended',3,'attempt');
INSERT INTO "event_fields" VALUES('JobSuspended',4,'step');
INSERT INTO "event_fields" VALUES('JobSuspended',5,'lost_us');
INSERT INTO "event_fields" VALUES('LaunchFailed',3,'attempt');
INSERT INTO "event_fields" VALUES('LaunchFailed',4,'cause');
INSERT INTO "event_fields" VALUES('LaunchFailed',5,'retryable');
INSERT INTO "event_fields" VALUES('LaunchFailed',6,'checkpoint_on');
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
INSERT INTO "event_fields" VALUES('RoundPlanned',3,'number');
INSERT INTO "event_fields" VALUES('RoundPlanned',4,'skipped');
INSERT INTO "event_fields" VALUES('RoundPlanned',5,'seen');
INSERT INTO "event_fields" VALUES('RoundPlanned',6,'trigger');
INSERT INTO "event_fields" VALUES('RoundPlanned',7,'waits');
INSERT INTO "event_fields" VALUES('RoundPlanned',8,'fault');
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
INSERT INTO "event_fields" VALUES('TrialReverted',3,'trial');
INSERT INTO "event_fields" VALUES('TrialReverted',4,'measured');
INSERT INTO "event_fields" VALUES('TrialStarted',3,'trial');
INSERT INTO "event_fields" VALUES('TrialStarted',4,'partners');
INSERT INTO "event_fields" VALUES('TrialStarted',5,'baseline');
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
INSERT INTO "frames" VALUES(61,30,540,1,X'864B2030EDB26181281C0DC232CB5A3C09EEB4708F60815B878E648DA7156444','[["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["WaitReasonChanged",540,"job_id é",["node_drained"]],["WaitReasonChanged",540,"job_id é",["node_drained",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","node_drained","rule é"],["PlanRejected",540,"job_id é","node_drained","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]]],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619],["GangRejected",540,"job_id é",774,"node_drained"],["GangRejected",540,"job_id é",774,"node_drained",[["conflicts é",965],["conflicts é",965]]],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"]],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never"]]');
INSERT INTO "frames" VALUES(91,28,540,1,X'9D1073D62EF6B68148B4E0F58B515DAB374B2E076559EAFDA1C4E70B42DB45EB','[["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é"],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"]]');
CREATE TABLE head (
	seq INTEGER NOT NULL, 
	chain BLOB NOT NULL, 
	term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(118,X'9D1073D62EF6B68148B4E0F58B515DAB374B2E076559EAFDA1C4E70B42DB45EB',1);
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
INSERT INTO "meta" VALUES('event_fields','ff490982c5faa10ce001381f319d3678c3e73dfb7e941524ed8a33ca3382700f');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','a8c0434489e4f37ecbc2b3bba29e49da09b6cbb59cb2089e70cb74d0d67b5ca5');
CREATE TABLE outcomes (
	seq INTEGER NOT NULL, 
	first INTEGER NOT NULL, 
	count INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	pairs BLOB NOT NULL, 
	PRIMARY KEY (seq)
);
CREATE TABLE segments (
	first_seq INTEGER NOT NULL, 
	last_seq INTEGER NOT NULL, 
	chain BLOB NOT NULL, 
	digest VARCHAR NOT NULL, 
	frames BLOB NOT NULL, 
	PRIMARY KEY (first_seq)
);
INSERT INTO "segments" VALUES(1,60,X'1C179129BFA84B137A29DC0C51FD571A1ACF5E7EBA736CD558DDF870A61BBDF5','42ece6d54999ecac0255bfdfe1c2af25ada6cd71b67f5bbf343ef13331779efa',X'789CD557DDAEA33610BEDFA7A8B8B6220C3686CBD5A9BA55B5AA7693ED55842263861CF610480DA44ADFA8CFD117EB989F0472388174B717BD8834F67C9EF96C8FBF215B4A5C9B7066134AAC803B8A292F009F250124522676A07CE153EA807238503FF123A5123F410FA7D2533461811B492A25F37C6985EFB65B6BA39E21AE33D09B4AEA0A62AB099FD75946181AD609749916F90F7FFF6511EB5864A93A0FEDDDD0CFA820962AF224DD9B7148FED3F004D9C7E91ECAAA6C970C0626F59BBE10A364755981DEA571E3AE740D66C95313FCE959E6FB11D551D6708EE8E248D60B9C3B7EBDB52C7856A8974D05C7E3283667DEBC7703FB03E4D50664367207C223BE67F72775B9BF07E1D7EB2E6EF25B4AD6253C0CFCB588E17D1C8F11394E764798CB436B5AFB63BDABCEC776C49808BF6D39A1B67049E061CD69A95EBA322A0E32CDFBEAEBAA086DCE5C8CEF36292766436373B439DE6F0CA7544157892DC31F35469DE6B80042ACE83C84AEF1420A7D3FDC3DCC6DBCDF720D523DCB28837B2117C2D6DF0DF4B128AB7FE39FA8B0351C8AD3DC89DD857C38D69F6BA9655EBD794DAEEB2C47DE90C44577AFEC1A7B09EC735D5472429C7EAFA1BEA49C05E10B095005E8CA463472D59D965D4C2CFC775B77D8B3A8A222A04E1025D267117585748258D98AD324E682626B520907019114AEA762CEFD384E7C614B8F46519CF0B667FD52449B3A3AA4D5A5A1585F8BA817F36DF3AC6630E68137445BCAD73D59073CABACDB1E7708756CE72A05D4ED77EC073E66E945A31C6B482FE50375D1457DEC3447158783CCE3AE14AF03A30DA90685D7D7CABFEF1991C53C5B8F31823FDC586F8584521618151A6CCB92F9B9B9BB5773062ED848B4280D569EC34792D5CF5D5BA499F3571CF7022733725C8E42C6570E4E49AD65CB543841D34489F03C932A1046E7E2FA083BEC6CBD5E427E4A75919B86D252BB9930546631FDEDAEE12B1ED5D4E536E5BE8B3BC17C104E3CEA12C6A9E15FC934EB7961889F217BBDFC9EAF1752E2FBEE854606B29CA031E71F8A72832BD33FA760A6F1CD435E45AB743A05159E580EF9A4D342A7D579A4194328BE9907A0371C3F9817F426FEFAC01E84DF647992B9826C0D2808E554B52C840DA37E490FF03145256A9ADAE46685FD101009FC94E669398599F313DF0D7A0C96F724F751E759042401F30791DBE3995A330B1806ED02AE8B3A8F3F65321FB74B0FE54FA04233472C4311EB0FF90246895AF91F36B24EDF6715FDFA7137A9C98D06F6FF262674859AA611990FF44BB71C8EC291EA608CFF09511C26B2CE2E22FE45EA3D54E50686DF5F6D5F9E76B56DAC4BD45BE1CD4739B5BD9530FDEA01304E974576EAFB7C59C9AAEEBE4DFE012E771358');
CREATE TABLE snapshots (
	seq INTEGER NOT NULL, 
	at_us INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	state BLOB NOT NULL, 
	memory BLOB NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "snapshots" VALUES(60,540,'2:358e0e5581a2134c5a58f4c2f78796a2ef94d6b17162bb44689f3108168c32ee',X'5B227374617465225D',X'5B226D656D6F7279225D');
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
