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
INSERT INTO "event_fields" VALUES('JobContinued',3,'attempt');
INSERT INTO "event_fields" VALUES('JobFailed',3,'cause');
INSERT INTO "event_fields" VALUES('JobFailed',4,'exit_code');
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
INSERT INTO "frames" VALUES(61,30,540,1,X'564661CDA3F6CDD08D2CCC34D3ADB61B902F8B88BC11C13793E007DFE79D245E','[["WaitReasonChanged",540,"job_id é",["array_limit"]],["WaitReasonChanged",540,"job_id é",["array_limit",613,418,["blockers é","blockers é"],"detail é"]],["PlanRejected",540,"job_id é","array_limit","rule é"],["PlanRejected",540,"job_id é","array_limit","rule é","detail é"],["PolicySetAside",540,null,"policy é","cause é",435],["PolicySetAside",540,null,"policy é","cause é",435],["GangProposed",540,"job_id é",774,[]],["GangProposed",540,"job_id é",774,[[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"],[[["node é",855,1073,967],["node é",855,1073,967]],"sliced"]]],["GangApproved",540,"job_id é",774,619],["GangApproved",540,"job_id é",774,619],["GangRejected",540,"job_id é",774,"array_limit"],["GangRejected",540,"job_id é",774,"array_limit",[["conflicts é",965],["conflicts é",965]]],["ReservationSet",540,"job_id é",null],["ReservationSet",540,"job_id é",885,447],["TrialStarted",540,"job_id é","trial é"],["TrialStarted",540,"job_id é","trial é",["partners é","partners é"],104.375],["TrialKept",540,"job_id é","trial é"],["TrialKept",540,"job_id é","trial é",106.75],["TrialReverted",540,"job_id é","trial é"],["TrialReverted",540,"job_id é","trial é",106.75],["LaunchFailed",540,"job_id é",767,"cause é"],["LaunchFailed",540,"job_id é",767,"cause é",false,["checkpoint_on é","checkpoint_on é"]],["AttemptStarted",540,"job_id é",767],["AttemptStarted",540,"job_id é",767,"resumed_from é",["migrated_from é","migrated_from é"],66.125,true,true,true],["SuspendAcknowledged",540,"job_id é",767],["SuspendAcknowledged",540,"job_id é",767],["SuspendEscalated",540,"job_id é",767,"never"],["SuspendEscalated",540,"job_id é",767,"never"],["TrainingStarted",540,"job_id é",767],["TrainingStarted",540,"job_id é",767]]');
INSERT INTO "frames" VALUES(91,26,540,1,X'73D82F06CCE24C8A045989FE9A6FD5C7D76F60C3CDCAD4414EC5DAD164A28EB7','[["JobStopped",540,"job_id é",767],["JobStopped",540,"job_id é",767],["JobContinued",540,"job_id é",767],["JobContinued",540,"job_id é",767],["CheckpointSaved",540,"job_id é",767,"checkpoint é"],["CheckpointSaved",540,"job_id é",767,"checkpoint é",444,551],["CheckpointDiscarded",540,"job_id é",767,[]],["CheckpointDiscarded",540,"job_id é",767,["nodes é","nodes é"],444,"cause é","by é"],["JobSuspended",540,"job_id é",767],["JobSuspended",540,"job_id é",767,444,777],["AttemptEnded",540,"job_id é",767,null],["AttemptEnded",540,"job_id é",767,948],["AttemptLost",540,"job_id é",767,"cause é"],["AttemptLost",540,"job_id é",767,"cause é",777],["GpusReleased",540,"job_id é",767],["GpusReleased",540,"job_id é",767],["SpeedChanged",540,"job_id é",767,66.125],["SpeedChanged",540,"job_id é",767,66.125],["MessagesDropped",540,"job_id é",767,553,"cause é"],["MessagesDropped",540,"job_id é",767,553,"cause é"],["AttemptSetAside",540,"job_id é",767],["AttemptSetAside",540,"job_id é",767,"by é"],["ProfileSampled",540,"job_id é",767],["ProfileSampled",540,"job_id é",767,444,90.5,204.0,1394,55.375,967,2236,2030],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875],["ProfileMeasured",540,null,"model é","gpu_type é",447,148.875,1052,1073,967,"level é"]]');
CREATE TABLE head (
	seq INTEGER NOT NULL, 
	chain BLOB NOT NULL, 
	term INTEGER NOT NULL
);
INSERT INTO "head" VALUES(116,X'73D82F06CCE24C8A045989FE9A6FD5C7D76F60C3CDCAD4414EC5DAD164A28EB7',1);
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
INSERT INTO "meta" VALUES('event_fields','d8b1bca9adb62fa1b611b132720df1b0b895b8b538ca0499e95ed7f0c6f80f8b');
INSERT INTO "meta" VALUES('schema','1');
INSERT INTO "meta" VALUES('digest','2d31e1787b20496a29eceb64fe1bb7e9fa11952e21b8fde1d1fb924acea07f1a');
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
INSERT INTO "segments" VALUES(1,60,X'F296D1596DFA9EB71CE4115CF496FABA5CC8FB274097E0743AC6C6CAE244145C','a3fd6ccdcdeca6d512bacb4fb70f2972973ae383aaf09cf10853a0ed5284eb6f',X'789CD557DB8EDB36107DCF57147A260C51A26E8FC1164D51044562A74F866050D4C8CBAC4CB994E4C2FDA37E477FAC43EB62C9ABB5E4267D28165E909CC3E121677886DA52E2DAC46336A1C48A3C4730E14710B22C828CF3CC8E441884943A201C0F68988589105998A1C5A3DC173463919B70CA39F3436EC5EFB65B6B239E21AD73D09B8AEB0A52EBE25ED5794E1836AC13E85216EA87BFFFB288752C7229CEC3F66E6867342096285426F7A61F93FFD43D41F6A9DC435995CD9441C72CFDA62D462F795D56A07732BD982B5D8399F27471FEF4CCD57E4475B46A3C4774B127EB05CE2DBFAEB5CC795E88974D05C7E3C8B7C7FC79EB06F60750D506783E3247814F42DFEE4EAA8FDF83F06BB88B9BF52DC1EB121E06FE5AA4F03E4DC7088583ED112A7E689AD6FE58EFAAF3B1E93116C4DF369D503B7049E463CE692E5EDA342A0E5CAA2EFBDA2CC2B6C75CF4EF5E969C188D4DDBC3B687F14DE12405B499D830FC51A3D7698E0B20C44ACE43E81A0352E8FBEEEE616EFDFDA63470F1CC931CEEB95C085B7F37D0C7A2ACFE8D7D22C3D670284E73277617F2E1587FAEB9E6AA7A334CAEEB2C47DE90C449774376F5BD04F6B92E2A3E214EBFD750F74BCE82F08644A8027465231AB9EA56CBFA2626FEBBAD3BAC599913F929F5F05FC62348022A8051EA092C4C7EC613EE0911668913303B0AC00E98CB858F7F1C1CC628F34453B37E29924D9D1C64D51714EB6B917462BEBD5CAB198CB9E017A20DE5EB9EAC039E55DE6ECF7308756CE72A05D4ED761C4621AED2894639D6904ECA07EAA28BFAD86A8E280E07AED23615AF1DA30D5283C0F035F21FFA4664719DADCF18C11F6EAC6BC584521619151A6CCBE2EA7C89DDAB31030FD848B4288D56BEE38D24AB1BBB96483316AE3CDC0B9C4CCF713D14326FE5E010D79A374C03276A8B287A088CC6A5F5117658D53AAD047592BA50A69834B46E060C8D594C17D9357CC5639A0A6CC369974B8CBCF5189AF8D425CCA3867DC565DEB1420F3F43FE7AF63D5B27A1240CDD9E450EBC9C6031671FCAF10557CA3FA760A6E4CD436EBC7DD2B2D0B23A8FEEF9700AE6F903D01BEF1F4CD6BF89BF5E8A07E137AB3C7125205F035EE2722ACC0B6143AF5FE4013E9AACB814A2C9CD06F6434024F09354B29CC2CCD949E8461D06137392FBA85A2C02928885A3A399C2CF026E565E17B54A3FE55C8D4B9B8F5215A09A3227588622D61FFC058C7234523D2C3AAD16CFAAEFF52136A99F46AFFA97FF6B21A046DF13F396EE0BDBB0178F64025DFC3F786237E375DE4BEE17AEF750951B18BE949A0A3A6D6A0A4EBB50D78A6F9ECFD4F65781A92C0F8071B82CF2535791CB8A5775FF2DF73EC72DF10ABF81DE9487ADC169FCA4E85FD64B2621C3FE71146265EBA266E64F1B0C4FFC28436FC305316008C29F194C40412685E45A76317F35348E4B13DFF81FAC0B4766');
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
