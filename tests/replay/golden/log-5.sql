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
INSERT INTO "event_fields" VALUES('JobSubmitted',7,'ended');
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
INSERT INTO "frames" VALUES(61,30,540,1,X'949DD459ED7AD1C71850B648FA13EB65D0A1DA1B4ABB1D7428DC73BA9733B697','[["AllocationChanged",540,"job_id é",[],["rule é"]],["AllocationChanged",540,"job_id é",[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],["rule é",[655,655],["beneficiaries é","beneficiaries é"],"detail é"],true],["WaitReasonChanged",540,"job_id é",["waiting_for_release"]],["WaitReasonChanged",540,"job_id é",["waiting_for_release",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","waiting_for_release","rule é"],["PlanRejected",540,"job_id é","waiting_for_release","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]]],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619],["GangRejected",540,"job_id é",774,"waiting_for_release"],["GangRejected",540,"job_id é",774,"waiting_for_release",[["conflicts é",965],["conflicts é",965]]],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"]],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never"]]');
INSERT INTO "frames" VALUES(91,28,540,1,X'BDCE95DC6C6C6329AE4EF60C9EC60E3D8B634EF1EAA46C7D0C5718CBABFD9E9E','[["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948,839],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é"],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"]]');
CREATE TABLE head (
	seq INTEGER NOT NULL, 
	chain BLOB NOT NULL, 
	term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(118,X'BDCE95DC6C6C6329AE4EF60C9EC60E3D8B634EF1EAA46C7D0C5718CBABFD9E9E',1);
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
INSERT INTO "meta" VALUES('event_fields','8533ca3e4c0228443d41ac3f9fcdc6b2c7fde77c3395ffe3fe785ee5fcd5a403');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','8dc8cc827e856379b2021c1087e5d8ae2ffdf7581ac24ea3ff4214ccd8d33981');
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
INSERT INTO "segments" VALUES(1,60,X'858FE41867DEB3BCE4325FB577FBCFB6D31DD2578646399E6C44190CB7C0FEDA','5f82cf21d8f9b66441a8a3715309eb4f5f9448f557f4750018ae3c6a0c993826',X'789CD557DDAEA33610BEDFA7A8B8B68E30180397D5A9BA55B5AA7693ED55842263861CF610488D4995BE519FA32FD6313F09E49040B6BB17BD8834F67CFE668CC7DF381B4A5C9B78CC269458A1E748267908014B43488548ED50067E40A903D2F1800669104B9906297A3C2AB8A4290BDD585021180F8415BDDB6CACB57C81A4CE41ADB5501A12ABA12FEA3C270C0DEB08AACACAE2877FFEB6887528F34C9E86F676E867D427962C8B34DB997144BE2B3DC1EC936C0795AEDA258381097DD317214B5E571AD4364B1AB756359825CF0DF9F38B2876A3544751A3B944173359AF70EAF2EBAD65E479295FD71A0E8711B7C7F8BC770DBB3D147A0D221FB9439F9380DBFD973A9FDF83F0CB719757F12D29EA0A1E06FE5626F063928C11054E769FB010FBD6B476877AAB4F8776C4981FFDB7E584DABE4B428E35A7847CEDCAA8DC8BACE8ABAFAB22B43DE622BFDB849C988D8CEDA1EDE1F92670CC247495D866F89342D6E91C174088159F86D0151E48A9EED3DDC35CF3FD5E2810F245C439DCA35C085B7D33D087B2D25FE39FA8B015ECCBE3DC17BB0B797FA83FD5428942DF3C26D7759623AF92C445778FECC2BD04F6A92EB59810A73F6AA8CF2167417843425401FA64231A73559D969D4D2CFC771B77D8B3022F4881D180FB09C46E2C81B98E97C69EEFA7B14C639EB834491CCF0F38E36E1802978CD1D096B12FED1492AE67FD5AC6EB3ADE67FADC50AC2F65DC8BF9A6B956331873C19B44DB942F7BB2F6F8ADF26E7B9E43A8633B1729A06EBFE3200C304A2F1AD558437A291FA88B2AEB43A739B2DCEF459174A57819186DC814483CBE56FE036E4416E36C3863047FB8B1DE8A08A52C342A34D896258A5373766FE60CDC6723D1A2347CE28E3792AC7EEED222CD5CF0E4E15EE068468EEBA190794F0E4E09A5449BA9EF844D13253EE72654E81B9D4BEA036CB1B3F57A09C5315365611A4A9BDAD58449651613B54CC8DEFA75B687B2D6DDE2B7D37D35ACE00B7EDAA962B0FE1419DEC5DD362DD556410EA202EBEB56114E5DC23C6A76AF4596F7BB42A65F207FCB72CFD7CB300902F79C4D13E626CF4DFF50D21B5C95FD3505336D731EF2864DAB6C0AEA737F39E4A3CA4A95E9D348718650BC710F40AF727C6FEEDF4DFCE57A3E08BF8AF22C0A09F90A504EAAA9A259081BB27EC63AFE90A18E352D7172B3BEFD101013F8392BB26A0A33E727811BF6182CEFC9DC477D6B1190842C1830B79F676ACD2C6048DA11AECABA483EE6A218375B8EE2E9A3BE33C75F863217FE158C8EB5CD63D806BBEE30DB0F2E4FC349456F14B4FF2F725B5EA8E93CB179E59F5BEE70148DC4C7C8E5FF2A5F1CA6A2CEF5B9591615FE094A848673C71CCF98E0D501DF9E9DFF6237D2FF59A81DE86A0DC3B7E0E68EAB6DA95DA2BD155DFD41A0367FF2BD883C02C6694CFCD8BF392A2D74DDBD93FE05B658486C');
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
